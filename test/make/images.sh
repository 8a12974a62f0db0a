#!/bin/sh
# Builds container images into a registry's directory, unless they are up to date.
#
#	images.sh IMAGES VERSIONS [DIR]	lists separated by spaces; DIR: default build/registry
set -eu
[ $# = 2 ] || [ $# = 3 ] || { echo "usage: $0 IMAGES VERSIONS [DIR]" >&2; exit 2; }
cd "$(dirname "$0")/../.."

registry=${3:-build/registry}
mkdir -p build
exec 9>build/registry.lock # two builds would write to the same directories
flock 9

stamp=$registry.stamp
inputs=$({
	echo "$1 for $2 from ${DEBIAN_MIRROR:-} ${DEBIAN_SECURITY_MIRROR:-}"
	find containers/images/*/ containers/images/build.sh containers/debian.sh VERSION -type f -not -path "*/images/controller/*" | LC_ALL=C sort | xargs sha256sum
} | sha256sum)
if [ -d "$registry" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$inputs" ]; then
	echo "images: $registry is up to date"
	exit 0
fi
echo "images: building ($1) in versions $2; takes about five minutes"
rm -f "$stamp"
# The engine's temporary data, about 5 GB, is stored on the checkout's disk.
mkdir -p build/tmp bin
CGO_ENABLED=0 go build -buildvcs=false -o bin/images ./test/images
# shellcheck disable=SC2086
TMPDIR=$PWD/build/tmp bin/images -to "$registry" -images "$1" $2
rmdir build/tmp 2>/dev/null || true
echo "$inputs" >"$stamp"
