#!/bin/sh
# The list of what make up creates on this machine, for make down to remove. Sourced by
# up.sh and down.sh, and by those of make cloud, which has its own list. Each entry is
# written before the thing is created, so that make down also works after make up was
# interrupted. Things that existed before are not in the list and are kept.

# The list, and the files of daemons, are below this directory.
mine=${mine:-/var/lib/kollet-up}
list=$mine/made

say() { printf '\n==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }
die() {
	printf '%s: %s\n' "${me:-make $(basename "$0" .sh)}" "$*" >&2
	exit 1
}

[ "$(id -u)" = 0 ] || die "containers, mounts and guests need root; run it with sudo"

# made KIND NAME: did make up create it?
made() { grep -qxF "$1 $2" "$list" 2>/dev/null; }

# making KIND NAME: records what is about to be created.
making() {
	mkdir -p "$mine"
	made "$1" "$2" || echo "$1 $2" >>"$list"
}

# each KIND: prints the names of what was created, the last one first.
each() { tac "$list" 2>/dev/null | sed -n "s|^$1 ||p"; }

# directory PATH [MODE]: creates a directory if it does not exist.
directory() {
	[ -d "$1" ] && return
	making directory "$1"
	mkdir -m "${2:-755}" "$1"
}

# Process ids are reused, so a process is identified by its id and its start time, field
# 22 of proc_pid_stat(5). The second field may contain spaces.
since() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# remember NAME PID: records a daemon that make up started.
remember() {
	echo "$2 $(since "$2")" >"$mine/$1.pid"
	making daemon "$1"
}

# pid_of NAME: prints the process id of a daemon; fails if it is not running.
pid_of() {
	read -r pid start 2>/dev/null <"$mine/$1.pid" && [ -n "$start" ] && [ "$(since "$pid")" = "$start" ] && echo "$pid"
}

# start NAME COMMAND...: starts a daemon, with its output in NAME.log.
start() {
	name=$1
	shift
	setsid "$@" </dev/null >>"$mine/$name.log" 2>&1 &
	remember "$name" $!
}

# answers NAME COMMAND...: waits until the command succeeds.
answers() {
	name=$1
	shift
	for _ in $(seq 300); do
		"$@" >/dev/null 2>&1 && return
		pid_of "$name" >/dev/null || break
		sleep 0.2
	done
	tail -n 20 "$mine/$name.log" >&2
	die "$name does not answer; the lines above are from $mine/$name.log"
}

# gone PID: waits until a process has exited.
gone() {
	for _ in $(seq 150); do
		[ -d "/proc/$1" ] || return 0
		# A zombie has exited too.
		[ "$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null)" != Z ] || return 0
		sleep 0.2
	done
	return 1
}

# stop NAME: stops a daemon.
stop() {
	pid=$(pid_of "$1") || return 0
	kill "$pid"
	gone "$pid" || { kill -9 "$pid" && gone "$pid"; }
	note "$1 (process $pid) stopped"
}

# listens PORT: is this TCP port in use?
listens() { ss -Hltn "sport = :$1" | grep -q .; }
