#!/bin/sh
# make down: removes what make up created on this machine, and nothing else.
set -eu
cd "$(dirname "$0")/../.."
checkout=$PWD
here=$checkout/test/up
# shellcheck source=test/up/made.sh
. "$here/made.sh"

PATH=$checkout/bin:$PATH
export DOCKER_HOST=unix:///var/run/docker.sock

main() {
	if [ ! -e "$list" ]; then
		echo "make up created nothing on this machine"
		rm -rf "$mine"
		return
	fi
	say "Removing what make up created"
	[ -z "$(each node)" ] || node
	for daemon in $(each daemon); do stop "$daemon"; done
	for service in $(each service); do systemctl stop "$service.socket" "$service.service"; done
	for link in $(each link); do
		# The agent made a bridge of it.
		bridge=$(basename "$(readlink "/sys/class/net/$link/master")")
		ip link delete "$link" 2>/dev/null || true
		[ -z "$bridge" ] || ip link delete "$bridge" 2>/dev/null || true
	done
	[ -z "$(each rules)" ] || rules
	host
	files
}

# node: removes guests, containers, volumes and images.
node() {
	if ! docker version >/dev/null 2>&1; then
		note "Docker does not answer; starting it"
		# shellcheck source=test/up/host.sh
		. "$here/host.sh"
		engine
	fi
	for pid in $(guests); do
		kill "$pid"
		gone "$pid" || kill -9 "$pid"
		note "guest (process $pid) ended"
	done
	docker ps --all --quiet --filter label=org.kollet.node=/var/lib/kollet | remove containers docker rm --force --volumes
	# Processes that serve guests were moved out of containers together with them.
	if made cgroup kollet-guests; then
		cat /sys/fs/cgroup/*/kollet-guests/cgroup.procs /sys/fs/cgroup/kollet-guests/cgroup.procs \
			/sys/fs/cgroup/*/machine.slice/kollet-guests-*.scope/cgroup.procs \
			/sys/fs/cgroup/machine.slice/kollet-guests-*.scope/cgroup.procs 2>/dev/null | sort -u |
			while read -r pid; do
				# Other nodes on this machine use the same cgroup. Field 5 of
				# proc_pid_mountinfo(5) is the mount point: an image of this engine is
				# the root directory.
				! made daemon dockerd || awk '$5 == "/"' "/proc/$pid/mountinfo" | grep -q "$mine/" || continue
				kill -9 "$pid" && gone "$pid"
			done
	fi
	made daemon dockerd && return # volumes and images are below its data root
	docker volume ls --quiet --filter label=org.kollet.volume | remove volumes docker volume rm
	for repository in $(each images); do
		docker image ls --quiet --no-trunc "$repository/*" | sort -u | remove images docker image rm --force
	done
}

# guests: prints the process ids of the node's guests.
guests() {
	kollet guests --output json | tr ',{}' '\n' | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p'
}

# remove WHAT COMMAND...: runs a command on the words in its input, if there are any.
remove() {
	what=$1
	shift
	words=$(cat)
	[ -n "$words" ] || return 0
	echo "$words" | xargs "$@" >/dev/null
	note "$(echo "$words" | wc -l) $what removed"
}

# rules: removes the firewall rules of the Linux bridge agent.
rules() {
	for command in iptables ip6tables; do
		! "$command-save" 2>/dev/null | grep -q neutron-linuxbri ||
			"$command-save" 2>/dev/null | grep -v neutron- | "$command-restore"
	done
}

# host: removes mounts and cgroups.
host() {
	for dir in $(each mount); do
		! mountpoint -q "$dir" || umount --recursive --lazy "$dir"
	done
	for dir in $(each shared); do mount --make-rprivate "$dir"; done
	for name in $(each cgroup); do
		for dir in /sys/fs/cgroup/*/"$name" "/sys/fs/cgroup/$name"; do
			[ ! -d "$dir" ] || find "$dir" -depth -type d -exec rmdir {} + 2>/dev/null || true # fails if another process uses it
		done
	done
}

# files: removes the files of make up and of the node, and the list itself.
files() {
	for path in $(each file); do rm -f "$path"; done
	for path in $(each tree); do rm -rf "$path"; done
	# Docker's mounts below its data directory.
	findmnt --raw --noheadings --output TARGET | grep "^$mine/" | tac | while read -r point; do umount "$point"; done
	for path in $(each directory); do rmdir "$path" 2>/dev/null || note "$path is kept: it is not empty"; done
	rm -rf "$mine"
	note "done; make clean removes what was built in $checkout/build and bin"
}

main
