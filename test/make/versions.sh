#!/bin/sh
# Fails unless the program, the Ansible collection and the changelogs have the version
# in VERSION. The build of the container images reads its label from there.
set -eu
cd "$(dirname "$0")/../.."

version=$(cat VERSION)
wrong=0

# expect WHERE GOT
expect() {
	[ "$2" = "$version" ] && return
	echo "versions: $1 has version ${2:-unknown}, and VERSION has $version" >&2
	wrong=1
}

expect bin/kollet "$(bin/kollet version --output json | sed -n 's/^ *"version": "\(.*\)",$/\1/p')"
expect playbooks/galaxy.yml "$(sed -n 's/^version: //p' playbooks/galaxy.yml)"
expect playbooks/CHANGELOG.md "$(sed -n 's/^## //p' playbooks/CHANGELOG.md | head -n 1)"
expect CHANGELOG.md "$(sed -n 's/^Nothing has been released yet; this will be \(.*\)\.$/\1/p; s/^## \[\([0-9].*\)\].*/\1/p' CHANGELOG.md | head -n 1)"
exit $wrong
