#!/bin/sh
# Builds the node image: Debian 12 with cloud-init, engines and kollet. See
# docs/node-image.md and --help.
set -eu

usage() {
	cat <<'USAGE'
usage: build.sh [OPTION...] DIRECTORY

Builds a Debian 12 node with systemd, cloud-init, Docker, containerd and kollet,
in two formats, into DIRECTORY:

  disk.qcow2            a whole-disk image; boots with BIOS and UEFI
  vmlinuz, initrd,      kernel, ramdisk and root file system, for example for
  root.qcow2            Ironic

  --kollet FILE     the program to install (default bin/kollet of the checkout)
  --kernel PACKAGE  Debian's kernel: linux-image-cloud-amd64 for virtual machines
                    (default), linux-image-amd64 for all others
  --size SIZE       size of the root file system (default 3G); it grows to the
                    size of the disk at first boot
  --refresh         build Debian again, with current packages
  --help            show this text

Needs root and the packages mmdebstrap, fdisk, mtools and qemu-utils; it mounts
nothing. Intermediate results are kept in DIRECTORY: a second build takes a few
seconds, or none if nothing changed.

Debian comes from DEBIAN_MIRROR, or else from the mirror that apt on this machine
uses; security updates come from DEBIAN_SECURITY_MIRROR (default:
DEBIAN_MIRROR-security). The node's apt uses the same mirror.
USAGE
}

die() {
	echo "node-image: $*" >&2
	exit 1
}

say() {
	echo "node-image: $*"
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../debian.sh
. "$here/../debian.sh"
kollet=$here/../../bin/kollet
kernel=linux-image-cloud-amd64
size=3G
refresh=
out=

while [ $# -gt 0 ]; do
	case $1 in
	--kollet | --kernel | --size)
		[ $# -ge 2 ] || die "$1 needs a value; see --help"
		case $1 in
		--kollet) kollet=$2 ;;
		--kernel) kernel=$2 ;;
		--size) size=$2 ;;
		esac
		shift
		;;
	--refresh) refresh=yes ;;
	--help | -h)
		usage
		exit
		;;
	-*) die "unknown option: $1; see --help" ;;
	*)
		[ -z "$out" ] || die "expected one directory; see --help"
		out=$1
		;;
	esac
	shift
done
[ -n "$out" ] || die "expected the directory for the image; see --help"
[ "$(id -u)" = 0 ] || die "only root can create a root file system; run it with sudo"
[ -x "$kollet" ] || die "$kollet does not exist; run make build, or set --kollet"
PATH=$PATH:/usr/sbin:/sbin
for program in mmdebstrap mke2fs debugfs sfdisk mformat mcopy qemu-img; do
	command -v $program >/dev/null || die "$program is not installed: apt-get install mmdebstrap e2fsprogs fdisk mtools qemu-utils"
done

# The packages of the node, and why it needs them.
packages="
systemd systemd-sysv systemd-resolved systemd-timesyncd udev dbus
cloud-init cloud-guest-utils fdisk
docker.io containerd apparmor
iproute2 iptables kmod procps
systemd-container
openssh-server sudo
ca-certificates curl
grub-pc-bin grub-efi-amd64-bin grub2-common
$kernel
"
# systemd to dbus        init and network
# cloud-init to fdisk    the first boot; growpart uses fdisk
# docker.io to apparmor  both engines; Docker loads a profile if the kernel has AppArmor
# iproute2 to procps     the network of nodes, and tools for operators
# systemd-container      machined: libvirt puts guests into its machine.slice
# openssh-server sudo    operators
# ca-certificates curl   downloads of kollet and images over HTTPS; signals to Heat
# grub-*                 whole disks; Ironic installs it on disks that it partitions

# debian FILE SOURCES: creates the root file system as a tar archive. It contains nothing
# from this machine except its mirror.
debian() {
	# shellcheck disable=SC2016,SC2086 # $1 is the new root, for the shell of each hook
	if ! mmdebstrap --quiet --variant=minbase --format=tar \
		--dpkgopt="$here/rootfs/etc/dpkg/dpkg.cfg.d/trim" \
		--include="$(echo $packages | tr ' ' ,)" \
		--customize-hook='rm -rf "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/* "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/etc/dpkg/dpkg.cfg.d/99mmdebstrap' \
		--customize-hook="upload '$2' /etc/apt/sources.list" \
		--customize-hook="tar -C '$here/rootfs' --owner=0 --group=0 --mode=u+rwX,go+rX,go-w -cf - . | tar -C \"\$1\" -xf -" \
		--customize-hook="chroot \"\$1\" sh -eu <'$here/configure'" \
		"$suite" "$1.part" - <"$2"; then
		rm -f "$1.part"
		die "mmdebstrap failed: check that the mirror above can be reached"
	fi
	mv "$1.part" "$1"
}

# file_system FILE DIRECTORY: creates a file system with the content of the directory. GRUB
# 2.06 cannot read file systems with the two features that are switched off.
file_system() {
	rm -f "$1"
	truncate -s "$size" "$1"
	mke2fs -q -t ext4 -L node -m 1 -O ^metadata_csum_seed,^orphan_file -d "$2" "$1" ||
		die "the root file system is too small; set a larger --size than $size"
}

# put IMAGE SECTOR: writes its input into an image.
put() {
	dd of="$1" bs=1M iflag=fullblock oflag=seek_bytes seek=$(($2 * 512)) conv=notrunc,sparse status=none
}

# disk FILE ROOT LOADER: creates a disk with three partitions: GRUB's second part for BIOS,
# the EFI system partition, and the root file system, which comes last so that it can grow.
# LOADER is the directory with configure's output.
disk() {
	bios=2048 esp=4096 root=36864 # in sectors of 512 bytes
	sectors=$(($(stat -c %s "$2") / 512))
	rm -f "$1"
	truncate -s $(((root + sectors + 2048) * 512)) "$1"
	sfdisk --quiet "$1" <<-TABLE
		label: gpt
		start=$bios, size=$((esp - bios)), type=21686148-6449-6E6F-744E-656564454649, name=bios
		start=$esp, size=$((root - esp)), type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name=esp
		start=$root, size=$sectors, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, name=root
	TABLE
	put "$1" $root <"$2"
	# Like grub-bios-setup: the first sector has the address of the second part, whose first
	# sector has the address of its rest (grub-core/boot/i386/pc, boot.S and diskboot.S:
	# kernel_sector, blocklist_default_start).
	head -c 440 "$3/mbr.img" | put "$1" 0
	put "$1" $bios <"$3/bios.img"
	lba $bios | dd of="$1" bs=1 seek=$((0x5c)) conv=notrunc status=none
	lba $((bios + 1)) | dd of="$1" bs=1 seek=$((bios * 512 + 0x1f4)) conv=notrunc status=none
	mformat -i "$1@@$((esp * 512))" -T $((root - esp)) -h 64 -s 32 -v ESP ::
	mmd -i "$1@@$((esp * 512))" ::EFI ::EFI/BOOT
	mcopy -i "$1@@$((esp * 512))" "$3/uefi.img" ::EFI/BOOT/BOOTX64.EFI
}

# lba SECTOR: prints the number as eight bytes, least significant first.
lba() {
	n=$1
	for _ in 1 2 3 4 5 6 7 8; do
		# shellcheck disable=SC2059
		printf "\\$(printf %03o $((n & 255)))"
		n=$((n >> 8))
	done
}

# compressed FROM TO
compressed() {
	qemu-img convert -q -c -m 2 -O qcow2 -o compression_type=zstd "$1" "$2.part"
	mv "$2.part" "$2"
}

# assemble: installs kollet in Debian and creates the images.
assemble() {
	work=$(mktemp -d -p "$out")
	trap 'rm -rf "$work"' EXIT
	mkdir "$work/root"
	tar -C "$work/root" --numeric-owner --xattrs --xattrs-include='*' -xf "$out/debian.tar"
	install -m 755 "$kollet" "$work/root/usr/local/bin/kollet"
	mkdir "$work/loader"
	mv "$work"/root/boot/*.img "$work/loader" # does not match initrd.img-VERSION
	cp "$work"/root/boot/vmlinuz-* "$out/vmlinuz"
	cp "$work"/root/boot/initrd.img-* "$out/initrd"
	file_system "$work/root.raw" "$work/root"
	disk "$work/disk.raw" "$work/root.raw" "$work/loader"
	compressed "$work/root.raw" "$out/root.qcow2"
	compressed "$work/disk.raw" "$out/disk.qcow2"
}

mkdir -p "$out"
out=$(CDPATH='' cd -- "$out" && pwd)
exec 9>"$out/lock" # two builds would write the same files
flock 9

sources >"$out/sources.list" && check_sources "$out/sources.list" || exit 1
made=$({
	echo "$kernel"
	cat "$out/sources.list"
	cd "$here" && find ../debian.sh build.sh configure rootfs -type f | LC_ALL=C sort | xargs sha256sum
} | sha256sum | cut -d ' ' -f 1)
if [ -n "$refresh" ] || [ ! -e "$out/debian.tar" ] || [ "$(cat "$out/debian.stamp" 2>/dev/null)" != "$made" ]; then
	say "building Debian $suite with $kernel (one to two minutes)"
	rm -f "$out/stamp"
	debian "$out/debian.tar" "$out/sources.list"
	echo "$made" >"$out/debian.stamp"
fi
inputs="$made $size $(sha256sum <"$kollet" | cut -d ' ' -f 1)"
if [ "$(cat "$out/stamp" 2>/dev/null)" = "$inputs" ] && [ -e "$out/disk.qcow2" ] && [ -e "$out/root.qcow2" ]; then
	say "the images in $out are up to date"
	exit 0
fi
say "creating the images"
rm -f "$out/stamp"
assemble
echo "$inputs" >"$out/stamp"
for name in disk.qcow2 root.qcow2 vmlinuz initrd; do
	say "$name: $(($(stat -c %s "$out/$name") / 1000000)) MB"
done
