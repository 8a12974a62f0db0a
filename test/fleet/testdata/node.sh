#!/bin/sh
# Pid 1 of a node, in its own mount, pid, network and UTS namespaces. Files below DIR
# survive a reboot, as on a disk; /run does not.
#
#	node.sh NAME DIR ADDRESS/BITS REGISTRY CGROUP
set -eu
name=$1 dir=$2 address=$3 registry=$4 group=$5

mount --make-rprivate /
mount -t proc proc /proc
while umount -l /run 2>/dev/null; do :; done # Docker looks at the lower of two mounts
mount -t tmpfs -o mode=755 run /run
mkdir /run/sshd
hostname "$name"
for path in /etc/kollet /etc/docker /var/lib/kollet /var/log/kollet /usr/local/bin; do
	mkdir -p "$path" "$dir/disk$path"
	mount --bind "$dir/disk$path" "$path"
done

ip link set lo up
until ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
ip addr add "$address" dev eth0
ip link set eth0 up

echo "{\"insecure-registries\": [\"$registry\"], \"live-restore\": true}" >/etc/docker/daemon.json
dockerd --data-root="$dir/docker" --bridge=none --iptables=false --ip6tables=false \
	--ip-forward=false --ip-masq=false --exec-opt=native.cgroupdriver=cgroupfs \
	--cgroup-parent="$group/$name" >>"$dir/dockerd.log" 2>&1 &
(
	until docker version >/dev/null 2>&1; do sleep 0.1; done
	exec /usr/sbin/sshd -D -e -f "$dir/../sshd_config" >>"$dir/sshd.log" 2>&1
) &
while :; do wait; sleep 1; done # reaps orphans
