#!/bin/sh
# Builds the container images of a node; see README.md in this directory and --help.
set -eu

usage() {
	cat <<'USAGE'
usage: build.sh [OPTION...] [IMAGE...]

Builds the images of a compute node from Debian 12 packages and tags them
[REGISTRY/]kolla/IMAGE:VERSION. Without image names it builds all of them:

  nova-libvirt  nova-compute  neutron-linuxbridge-agent
  neutron-openvswitch-agent  openvswitch-db-server  openvswitch-vswitchd
  ovn-controller  neutron-ovn-metadata-agent

Others run beside them, and are built only when they are named:

  nova-ssh  iscsid  multipathd  ceilometer-compute  cron
  prometheus-node-exporter  prometheus-libvirt-exporter

The image controller, an OpenStack control plane for development and tests, is built
only when it is named.

  --version V       tag and version label (default 26.2.2)
  --registry ADDR   prefix image names with ADDR/, such as registry:5000
  --push            push the images when all are built
  --base IMAGE      build on this image instead of building a Debian base
  --refresh         build the Debian base and all layers again, with current packages
  --verbose         show the engine's output
  --help            show this text

The engine is the one that `docker` uses (DOCKER_HOST). The first build takes
about five minutes and needs mmdebstrap and root, unless --base is set. Later
builds take seconds: the Debian base is kept in build/ of the checkout, and
layers are kept by the engine.

Debian comes from DEBIAN_MIRROR, or else from the mirror that apt on this machine
uses; security updates come from DEBIAN_SECURITY_MIRROR (default:
DEBIAN_MIRROR-security). The images' sources.list names the same mirror. A proxy
set for apt or in http_proxy is used for the build only.
USAGE
}

die() {
	echo "build.sh: $*" >&2
	exit 1
}

say() {
	echo "build.sh: $*"
}

epoch=1686355200 # 2023-06-10, the release of bookworm: no file has a later date
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../debian.sh
. "$here/../debian.sh"
build=$here/../../build
extra="nova-ssh iscsid multipathd ceilometer-compute cron prometheus-node-exporter prometheus-libvirt-exporter"
all="nova-libvirt nova-compute neutron-linuxbridge-agent neutron-openvswitch-agent openvswitch-db-server openvswitch-vswitchd ovn-controller neutron-ovn-metadata-agent"

# make_debian FILE SOURCES: creates a root file system that contains nothing from this
# machine except its mirror: no host name, name servers or current time.
make_debian() {
	command -v mmdebstrap >/dev/null || die "mmdebstrap is not installed: run apt-get install mmdebstrap, or set --base"
	# shellcheck disable=SC2016 # $1 is the new root, for the shell of each hook
	if ! SOURCE_DATE_EPOCH=$epoch mmdebstrap --quiet --variant=minbase --format=tar \
		--dpkgopt="$here/base/rootfs/etc/dpkg/dpkg.cfg.d/trim" \
		--customize-hook='rm -rf "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/*' \
		--customize-hook="upload '$2' /etc/apt/sources.list" \
		--customize-hook='rm -rf "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/etc/dpkg/dpkg.cfg.d/99mmdebstrap "$1"/etc/hostname "$1"/etc/resolv.conf "$1"/etc/machine-id "$1"/var/cache/ldconfig/aux-cache "$1"/var/log/apt "$1"/var/log/*.log' \
		"$suite" "$1.part" - <"$2"; then
		rm -f "$1.part"
		die "mmdebstrap failed: check that the mirror above can be reached"
	fi
	mv "$1.part" "$1"
}

# import_debian TAG: imports the Debian base from build/ into the engine, unless the
# engine has it: a new import would make the engine build all layers on it again.
import_debian() {
	tar=$build/base-$suite-$(dpkg --print-architecture).tar
	mkdir -p "$build"
	sources >"$tar.sources.new" && check_sources "$tar.sources.new" || exit 1
	if [ -n "$refresh" ] || [ ! -e "$tar" ] || ! cmp -s "$tar.sources.new" "$tar.sources"; then
		say "building Debian $suite (about 30 seconds)"
		make_debian "$tar" "$tar.sources.new"
		mv "$tar.sources.new" "$tar.sources"
	fi
	sum=$(sha256sum "$tar" | cut -d' ' -f1)
	have=$(docker image inspect --format '{{index .Config.Labels "kollet.debian.sha256"}}' "$1" 2>/dev/null) || have=
	[ "$have" != "$sum" ] || return 0
	say "importing $tar"
	docker import --change "LABEL kollet.debian.sha256=$sum" --change 'CMD ["/bin/sh"]' "$tar" "$1" >/dev/null
}

# layer TAG BASE DIRECTORY [OPTION...]: builds one Dockerfile. The proxy needs no ARG
# there: the engine knows these names and keeps them out of the history. It uses the
# classic builder, which every engine has; Debian's has no other. Files get the modes that
# images need, regardless of the umask of the checkout.
layer() {
	tag=$1
	from=$2
	directory=$3
	shift 3
	log=$build/image-$directory.log
	mkdir -p "$build"
	started=$(date +%s)
	set -- "$@" --network host --file "$directory/Dockerfile" --tag "$tag" --build-arg "BASE=$from"
	[ -z "$proxy" ] || set -- "$@" --build-arg "http_proxy=$proxy"
	[ -z "$refresh" ] || set -- "$@" --no-cache
	if [ -n "$verbose" ]; then
		context | DOCKER_BUILDKIT=0 docker build "$@" - || die "$tag could not be built"
	elif ! context | DOCKER_BUILDKIT=0 docker build "$@" - >"$log" 2>&1; then
		tail -n 20 "$log" >&2
		die "$tag could not be built; the complete output is in $log"
	fi
	size=$(docker image inspect --format '{{.Size}}' "$tag")
	say "$tag: $((size / 1000000)) MB, $(($(date +%s) - started)) s"
}

context() {
	tar -C "$here" --mode=u+rwX,go+rX,go-w --owner=0 --group=0 -cf - .
}

# image NAME: builds an image and, once per run, the image that it is based on.
image() {
	full=${registry}kolla/$1:$version
	name=$1
	set -- --build-arg "VERSION=$version" --label "kollet.version=$(cat "$here/../../VERSION")"
	case $name in
	nova-libvirt | nova-ssh | iscsid | multipathd | cron | prometheus-*) layer "$full" kolla/base:latest "$name" "$@" ;;
	openvswitch-* | ovn-controller) layer "$full" kolla/base:latest openvswitch --target "$name" "$@" ;;
	*)
		if [ -z "$openstack" ]; then
			openstack=built
			layer kolla/openstack-base:latest kolla/base:latest openstack-base
		fi
		layer "$full" kolla/openstack-base:latest "$name" "$@"
		;;
	esac
}

version=26.2.2
registry=
push=
base=
refresh=
verbose=
images=
openstack=

while [ $# -gt 0 ]; do
	case $1 in
	--version | --registry | --base)
		[ $# -ge 2 ] || die "$1 needs a value; see --help"
		case $1 in
		--version) version=$2 ;;
		--registry) registry=${2%/}/ ;;
		--base) base=$2 ;;
		esac
		shift
		;;
	--push) push=yes ;;
	--refresh) refresh=yes ;;
	--verbose) verbose=yes ;;
	--help | -h)
		usage
		exit
		;;
	-*) die "unknown option: $1; see --help" ;;
	*)
		case " $all $extra controller " in *" $1 "*) ;; *) die "unknown image: $1; expected one of: $all $extra controller" ;; esac
		images="$images $1"
		;;
	esac
	shift
done
[ -n "$images" ] || images=$all

docker version >/dev/null 2>&1 || die "no engine answers at ${DOCKER_HOST:-the default socket}; start it, or set DOCKER_HOST"
proxy=${http_proxy:-$(apt-config dump --format '%v%n' Acquire::http::Proxy 2>/dev/null | head -n 1)}
[ "$proxy" != DIRECT ] || proxy=
[ -z "$proxy" ] || export http_proxy="$proxy"

if [ -z "$base" ]; then
	base=kolla/debian:$suite
	import_debian "$base"
fi
say "building; installing the packages of an image takes up to two minutes unless the layer is kept"
layer kolla/base:latest "$base" base
for name in $images; do
	image "$name"
done
[ -n "$push" ] || exit 0
for name in $images; do
	say "pushing ${registry}kolla/$name:$version"
	docker push --quiet "${registry}kolla/$name:$version"
done
