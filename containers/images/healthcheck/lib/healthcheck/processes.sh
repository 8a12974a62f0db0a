# shellcheck shell=sh
# processes.sh: finds this container's processes and their sockets in /proc. The
# probes healthcheck_port, healthcheck_listen and healthcheck_socket source this
# file. Their first argument names the process.

# fail MESSAGE...: fails the probe.
fail() {
	echo "${0##*/}: $*" >&2
	exit 1
}

# processes PROBE-ARGUMENT...: sets pids to this container's processes that have
# an argument in their command line that matches the first argument, as in grep.
# With the host's pid namespace, /proc shows all processes of the host; those of
# this container are in its mount namespace. To inspect another user's process,
# root needs CAP_SYS_PTRACE; without it, the probe is run again as each of the
# users who own such processes.
processes() {
	pids=
	owners=
	here=$(readlink /proc/self/ns/mnt)
	# shellcheck disable=SC2013 # a list of names, each without blanks
	for file in $(grep -aszl -e "$1" /proc/[0-9]*/cmdline); do
		dir=${file%/cmdline}
		pid=${dir#/proc/}
		[ "$pid" != $$ ] || continue
		if there=$(readlink "$dir/ns/mnt" 2>/dev/null); then
			[ "$there" != "$here" ] || pids="$pids $pid"
		elif owner=$(stat -c %u:%g "$dir" 2>/dev/null); then
			case " $owners " in *" $owner "*) ;; *) owners="$owners $owner" ;; esac
		fi
	done
	if [ -z "$pids" ] && [ "$(id -u)" -eq 0 ]; then
		for owner in $owners; do
			[ "$owner" != 0:0 ] || continue
			if setpriv --reuid "${owner%:*}" --regid "${owner#*:}" \
				--clear-groups "$0" "$@" 2>/dev/null; then
				exit 0
			fi
		done
	fi
	[ -n "$pids" ] || fail "no process $1 in this container, or none that user $(id -un) may inspect"
}

# sockets: prints the sockets that pids have open, as socket:[INODE].
sockets() {
	for pid in $pids; do
		find "/proc/$pid/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null || :
	done
}

# tcp STATE COLUMN PORT...: prints the TCP sockets of this network namespace that
# have a state (01 established, 0A listening) and have one of the ports in a
# column of /proc/net/tcp (2 local address, 3 remote address; see proc(5)).
tcp() {
	state=$1
	column=$2
	shift 2
	cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
		awk -v state="$state" -v column="$column" -v ports="$*" '
			BEGIN {
				n = split(ports, list, " ")
				for (i = 1; i <= n; i++) wanted[sprintf("%04X", list[i])] = 1
			}
			$4 == state {
				split($column, address, ":")
				if (address[2] in wanted) print "socket:[" $10 "]"
			}'
}

# common LIST: succeeds if standard input contains a line of LIST.
common() {
	[ -n "$1" ] && grep -qFx -e "$1"
}
