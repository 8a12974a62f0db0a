#!/bin/sh
# Installs missing Debian packages for building, testing and `make up`. Installed packages
# are not changed. Services of new packages are not started: tests start their own daemons.
set -eu

packages='
ca-certificates curl unzip zip git
gcc libc6-dev
docker.io containerd runc docker-registry
rabbitmq-server
ovn-central
mmdebstrap zstd
qemu-system-x86 qemu-utils
busybox-static cpio
iproute2 iptables kmod procps
systemd cloud-init
xorriso genisoimage
shellcheck
ansible-core ansible-lint python3-pytest
python3-yaml
openssh-server openssh-client
python3-heat
spin
'
# ca-certificates curl unzip   the Go toolchain
# git                          the version
# gcc libc6-dev                the race detector needs cgo
# docker.io to docker-registry engines and the registry of images
# rabbitmq-server              nova-compute and Neutron's agent need a message bus
# ovn-central                  ovn-controller needs a southbound database
# mmdebstrap zstd              the base of the images
# qemu-*, busybox, cpio        guests, nodes as virtual machines, a disk that logs its writes
# iproute2 iptables kmod procps  programs that kollet uses on a node
# ansible-*, pytest, openssh-* tests of fleets and playbooks
# python3-yaml                 reads config.yaml as Kolla does, to compare
# python3-heat                 to check the Heat templates with Heat itself
# spin                         to search every run of the protocol's model
# systemd cloud-init           to check the files that kollet writes for them; neither runs
# xorriso genisoimage          to read the images that kollet seed writes

[ "$(id -u)" = 0 ] || { echo "deps: only root can install packages: run make deps with sudo" >&2; exit 1; }
# shellcheck disable=SC1091
. /etc/os-release
if [ "${ID:-}:${VERSION_ID:-}" != debian:12 ]; then
	echo "deps: this is ${PRETTY_NAME:-not Debian}; the packages are those of Debian 12 (bookworm)" >&2
fi

missing=
for p in $packages "$@"; do
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing="$missing $p"
done
if [ -z "$missing" ]; then
	echo "deps: all packages are installed"
	exit 0
fi

# invoke-rc.d and deb-systemd-invoke ask this file before they start a service:
# /usr/share/doc/init-system-helpers/README.policy-rc.d.gz. 101 means no.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	trap 'exit 1' INT TERM HUP
	printf '#!/bin/sh\n# until make deps is done\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi

echo "deps: installing$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
# shellcheck disable=SC2086
apt-get -qq -y -o Dpkg::Use-Pty=0 install --no-install-recommends $missing

# Do not start them at the next boot either. The tests start them on the loopback device.
for package in rabbitmq-server docker-registry openssh-server ovn-central tgt; do
	service=$package
	[ $package != openssh-server ] || service=ssh
	case " $missing " in *" $package "*)
		! command -v systemctl >/dev/null || systemctl --quiet disable "$service.service" 2>/dev/null || true
		;;
	esac
done

# At the next boot cloud-init would treat this machine as a new server, and change
# its host keys and network (doc/rtd/howto/disable_cloud_init.rst).
case " $missing " in *" cloud-init "*) touch /etc/cloud/cloud-init.disabled ;; esac
