#!/bin/sh
# Pid 1 of a node, in its own mount, pid, network, IPC and UTS namespaces. Files below DIR
# survive a reboot, as on a disk; /run does not.
#
#	node.sh NAME DIR ADDRESS/BITS REGISTRY CGROUP RUNTIME
set -eu
name=$1 dir=$2 address=$3 registry=$4 group=$5 runtime=$6

mount --make-rprivate /
mount -t proc proc /proc
while umount -l /run 2>/dev/null; do :; done # Docker looks at the lower of two mounts
mount -t tmpfs -o mode=755 run /run
mkdir /run/sshd /run/lock
# sysfs shows the network devices of the namespace in which it is mounted. The cgroup
# hierarchies, which are below the old one, stay.
mkdir /run/sys
mount --rbind /sys /run/sys
mount -t sysfs sysfs /sys
mount --rbind /run/sys/fs/cgroup /sys/fs/cgroup
umount -l /run/sys
rmdir /run/sys
mount --make-shared /run # as systemd does
hostname "$name"
for path in /etc/kollet /etc/docker /var/lib/kollet /var/log/kollet /usr/local/bin; do
	mkdir -p "$path" "$dir/disk$path"
	mount --bind "$dir/disk$path" "$path"
done

ip link set lo up
until ip link show eth0 >/dev/null 2>&1 && ip link show eth1 >/dev/null 2>&1; do sleep 0.02; done
ip addr add "$address" dev eth0
ip link set eth0 up
ip link set eth1 up

echo "{\"insecure-registries\": [\"$registry\"], \"live-restore\": true}" >/etc/docker/daemon.json
dockerd --data-root="$dir/docker" --bridge=none --iptables=false --ip6tables=false \
	--ip-forward=false --ip-masq=false --exec-opt=native.cgroupdriver=cgroupfs \
	--cgroup-parent="$group/$name" --add-runtime="site=$runtime" --default-runtime=site >>"$dir/dockerd.log" 2>&1 &
(
	until docker version >/dev/null 2>&1; do sleep 0.1; done
	exec /usr/sbin/sshd -D -e -f "$dir/../sshd_config" >>"$dir/sshd.log" 2>&1
) &
while :; do wait; sleep 1; done # reaps orphans
