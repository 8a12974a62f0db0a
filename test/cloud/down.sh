#!/bin/sh
# make cloud-down: removes what make cloud created on this machine, and nothing else.
set -eu
cd "$(dirname "$0")/../.."
checkout=$PWD
mine=/var/lib/kollet-cloud
me="make cloud-down"
# shellcheck source=test/up/made.sh
. "$checkout/test/up/made.sh"
export DOCKER_HOST="unix://$mine/docker.sock"

if [ ! -e "$list" ]; then
	echo "make cloud created nothing on this machine"
	exit 0
fi
say "Removing what make cloud created"
if pid_of dockerd >/dev/null; then
	docker rm --force --volumes controller >/dev/null 2>&1 || true
	stop dockerd
fi
findmnt --raw --noheadings --output TARGET | grep "^$mine/" | tac | while read -r point; do umount "$point"; done
for name in $(each cgroup); do
	for dir in /sys/fs/cgroup/*/"$name" "/sys/fs/cgroup/$name"; do
		[ ! -d "$dir" ] || find "$dir" -depth -type d -exec rmdir {} + 2>/dev/null || true # fails if another process uses it
	done
done
# Another engine may use these by now.
pgrep --exact 'dockerd|containerd' >/dev/null || for path in $(each directory); do rm -rf "$path"; done
rm -rf "$mine"
note "done; make clean removes what was built in $checkout/build and bin"
