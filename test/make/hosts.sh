#!/bin/sh
# Fails if a file of the tree names a host that packages are fetched from: Debian's
# mirror comes from apt's configuration or DEBIAN_MIRROR, Go modules come from
# GOPROXY, and so on.
set -eu
cd "$(dirname "$0")/../.."

# Each pattern is spelled so that it does not match itself. Names of images
# (docker.io/…) and import paths (golang.org/x/…) are names, not hosts.
patterns='
(deb|security|archive|snapshot|ftp[a-z.]*|http[a-z]*|cdn[a-z-]*)\.(debian\.org|ubuntu\.com)
(ports|cloud-images|ppa|keyserver)\.(ubuntu\.com|launchpad)
(proxy|sum|index)\.golang\.org
goproxy\.(io|cn)
(test\.)?pypi\.(org|python\.org)
files\.pythonhosted\.org
registry\.(npmjs\.org|yarnpkg\.com)
galaxy\.ansible\.com
download\.(docker\.com|fedoraproject\.org|opensuse\.org)
mirrors?\.([a-z0-9-]+\.)*(edu|net|org|kernel\.org)/
(crates|rubygems|packagecloud)\.(io|org)
dl(-cdn)?\.(google\.com|alpinelinux\.org)
'
found=$(echo "$patterns" | sed '/^$/d' | grep -rnIE --exclude-dir=.git --exclude-dir=bin --exclude-dir=build -f /dev/stdin . || true)
if [ -n "$found" ]; then
	echo "$found"
	echo "hosts: the lines above name a package host: take it from the machine's configuration or from a variable" >&2
	exit 1
fi
