#!/bin/sh
# Builds the guest of the tests: Debian's cloud kernel, and an initramfs with a static
# busybox and the programs from this directory.
#
#	build.sh DIR	creates DIR/vmlinuz and DIR/initrd
#
# Needs apt-get (with package lists), dpkg-deb, cpio, gzip, and busybox from
# busybox-static. Installs nothing.
set -eu
[ $# = 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)

busybox=$(command -v busybox) || { echo "busybox is not installed; install it with: make deps" >&2; exit 1; }
command -v cpio >/dev/null || { echo "cpio is not installed; install it with: make deps" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The metapackage depends on the package of the current kernel.
meta=linux-image-cloud-amd64
package=$(apt-cache depends --important "$meta" | sed -n 's/^ *Depends: \(linux-image-.*-cloud-amd64\)$/\1/p' | head -n 1)
[ -n "$package" ] || { echo "apt knows no $meta; run apt-get update first" >&2; exit 1; }
# If possible, apt-get downloads as another user, which must be able to write here.
chmod 755 "$work"
mkdir -m 777 "$work/deb"
(cd "$work/deb" && apt-get -q download "$package")
dpkg-deb -x "$work"/deb/*.deb "$work/kernel"

root=$work/root
mkdir -p "$root/bin" "$root/dev" "$root/proc" "$root/sys" "$root/lib" "$root/etc/acpi/PWRF"
cp "$busybox" "$root/bin/busybox"
cp "$here/init" "$root/init"
cp "$here/lease" "$root/etc/lease"
for module in button evdev virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci failover net_failover virtio_net; do
	find "$work/kernel/lib/modules" -name $module.ko -exec cp {} "$root/lib" \;
done
# acpid runs this file when the power button is pressed.
printf '#!/bin/busybox sh\nexec /bin/busybox poweroff -f\n' >"$root/etc/acpi/PWRF/00000080"
chmod 755 "$root/init" "$root/etc/lease" "$root/etc/acpi/PWRF/00000080"

(cd "$root" && find . | cpio --quiet -o -H newc -R 0:0) | gzip -1 >"$out/initrd.new"
cp "$work"/kernel/boot/vmlinuz-* "$out/vmlinuz.new"
mv "$out/initrd.new" "$out/initrd"
mv "$out/vmlinuz.new" "$out/vmlinuz"
