#!/bin/sh
# Builds the image of the control plane for development and tests, unless it is up to date.
# build/controller is the data root of an engine, which make cloud and the tests copy.
#
#	controller.sh VERSION
set -eu
[ $# = 1 ] || { echo "usage: $0 VERSION" >&2; exit 2; }
cd "$(dirname "$0")/../.."
images=containers/images

mkdir -p build
exec 9>build/controller.lock # two builds would write to the same directory
flock 9

stamp=build/controller.stamp
inputs=$({
	echo "$1 from ${DEBIAN_MIRROR:-} ${DEBIAN_SECURITY_MIRROR:-} by $(dockerd --version)"
	find $images/base $images/openstack-base $images/controller $images/build.sh containers/debian.sh VERSION -type f |
		LC_ALL=C sort | xargs sha256sum
} | sha256sum)
if [ -d build/controller ] && [ "$(cat "$stamp" 2>/dev/null)" = "$inputs" ]; then
	echo "controller: build/controller is up to date"
	exit 0
fi
echo "controller: building the control plane's image in version $1; takes up to six minutes the first time"
rm -f "$stamp"
mkdir -p bin
CGO_ENABLED=0 go build -buildvcs=false -o bin/images ./test/images
bin/images -engine build/controller -images controller "$1"
echo "$inputs" >"$stamp"
