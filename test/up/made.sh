#!/bin/sh
# What make up makes on this machine, and how it is taken away. Sourced by up.sh
# and down.sh. Each thing is written down before it is made, so that make down
# finds it also when make up was interrupted; what was there before is not in
# the list and stays.

# All that is not kollet's own is below this directory.
mine=/var/lib/kollet-up
list=$mine/made

say() { printf '\n==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }
die() {
	printf 'make %s: %s\n' "$(basename "$0" .sh)" "$*" >&2
	exit 1
}

[ "$(id -u)" = 0 ] || die "containers, mounts and guests need root; run it with sudo"

# made KIND NAME: was it made by make up?
made() { grep -qxF "$1 $2" "$list" 2>/dev/null; }

# making KIND NAME: writes down what is about to be made.
making() {
	mkdir -p "$mine"
	made "$1" "$2" || echo "$1 $2" >>"$list"
}

# each KIND: the names of what was made, the last first.
each() { tac "$list" 2>/dev/null | sed -n "s|^$1 ||p"; }

# directory PATH [MODE]: makes a directory that does not exist.
directory() {
	[ -d "$1" ] && return
	making directory "$1"
	mkdir -m "${2:-755}" "$1"
}

# A process is known by its id and the time at which it started, field 22 of
# proc_pid_stat(5): ids are used again. The second field may hold spaces.
since() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# remember NAME PID: a daemon that make up started.
remember() {
	echo "$2 $(since "$2")" >"$mine/$1.pid"
	making daemon "$1"
}

# pid_of NAME: its process; fails if it does not run.
pid_of() {
	read -r pid start 2>/dev/null <"$mine/$1.pid" && [ -n "$start" ] && [ "$(since "$pid")" = "$start" ] && echo "$pid"
}

# start NAME COMMAND...: starts a daemon; what it says is in NAME.log.
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

# gone PID: waits until a process has ended.
gone() {
	for _ in $(seq 150); do
		[ -d "/proc/$1" ] || return 0
		# One that ended but was not waited for is gone too.
		[ "$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null)" != Z ] || return 0
		sleep 0.2
	done
	return 1
}

# stop NAME: ends a daemon.
stop() {
	pid=$(pid_of "$1") || return 0
	kill "$pid"
	gone "$pid" || { kill -9 "$pid" && gone "$pid"; }
	note "$1 (process $pid) stopped"
}

# listens PORT: does anybody listen on this TCP port?
listens() { ss -Hltn "sport = :$1" | grep -q .; }
