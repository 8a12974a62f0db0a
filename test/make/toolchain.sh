#!/bin/sh
# Installs Go if it is missing or older than go.mod requires. The toolchain is a module, so
# it comes from a Go module proxy: the one in GOPROXY, or else the default of an installed
# Go. If no Go is installed, Debian's is installed to get that default.
#
#	toolchain.sh DIR	DIR becomes GOROOT
#
# The checksums are those of the zip files of golang.org/toolchain@v0.0.1-goVERSION.linux-ARCH,
# whose module hashes are in Go's checksum database.
set -eu
[ $# = 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
root=$1
version=1.26.8

cd "$(dirname "$0")/../.."
export GOTOOLCHAIN=local # Go must not download another toolchain

# An old Go refuses a module that requires a newer one.
if command -v go >/dev/null && go list -m >/dev/null 2>&1; then
	echo "toolchain: $(go env GOVERSION) at $(go env GOROOT)"
	exit 0
fi

case $(uname -m) in
x86_64) arch=amd64 sum=30c2b1bf7dcc88d3eb0a1364e47ddd9128edb3110a30e8a0ef61cd5856b31de7 ;;
aarch64) arch=arm64 sum=02b36b6787b3ac767668f630e2998df45a3b1f9ffee08d1bf3ef6487cd658d99 ;;
*)
	echo "toolchain: no Go $version is known for $(uname -m): install Go yourself" >&2
	exit 1
	;;
esac

proxies=${GOPROXY:-}
if [ -z "$proxies" ]; then
	if ! command -v go >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "toolchain: GOPROXY is not set: installing Debian's Go, which names the default proxy"
		DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 install --no-install-recommends golang-go || true
	fi
	# Run outside of the module, because an old Go may refuse its go.mod.
	proxies=$(cd / && go env GOPROXY 2>/dev/null) || proxies=
fi
# The first entry that is a proxy.
proxy=
IFS='|,'
for entry in $proxies; do
	case $entry in http://* | https://*) proxy=${entry%/} && break ;; esac
done
unset IFS
if [ -z "$proxy" ]; then
	echo "toolchain: Go $version or newer is needed, and GOPROXY names no proxy to fetch it from: set GOPROXY to the URL of a Go module proxy, or install Go" >&2
	exit 1
fi

module=golang.org/toolchain
name=v0.0.1-go$version.linux-$arch
mkdir -p "$(dirname "$root")"
work=$(mktemp -d "$root.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

echo "toolchain: getting Go $version from $proxy"
curl -fsSL --retry 3 -o "$work/go.zip" "$proxy/$module/@v/$name.zip"
if ! echo "$sum  $work/go.zip" | sha256sum --check --quiet; then
	echo "toolchain: the file from $proxy does not have the checksum of Go $version; nothing was installed" >&2
	exit 1
fi
unzip -q "$work/go.zip" -d "$work"
new="$work/$module@$name"
# The zip of a module has no file modes, and no go.mod below its root. This restores both as
# the go command does: cmd/go/internal/toolchain, download.
chmod 755 "$new"/bin/* "$new"/pkg/tool/*/*
find "$new" -name _go.mod -execdir mv {} go.mod \;
rm -rf "$root"
chmod 755 "$new"
mv "$new" "$root"

PATH=$root/bin:$PATH
go list -m >/dev/null # prints an error if the toolchain does not work
echo "toolchain: $(go env GOVERSION) at $root"
