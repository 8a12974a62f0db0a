#!/bin/sh
# Checks built images without a node: smoke.sh [TAG-PREFIX] [VERSION], for example
# smoke.sh registry:5000/ 26.2.3. Prints the size of each image and one line per problem,
# and fails if there is one. Images that are built only when they are named may be absent.
# DOCKER_HOST selects the engine.
# shellcheck disable=SC2016 # single quotes are for the shell in the container
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
prefix=${1-}
version=${2-26.2.2}
problems=0

# in_image IMAGE USER COMMAND...: runs a command; an empty USER is the image's user.
in_image() {
	image=${prefix}kolla/$1:$version
	user=$2
	shift 2
	docker run --rm --network none --entrypoint '' ${user:+--user "$user"} "$image" "$@" 2>&1
}

# expect IMAGE WHAT WANTED GOT
expect() {
	[ "$3" = "$4" ] && return
	problems=$((problems + 1))
	printf '%s: %s: expected %s, found %s\n' "$1" "$2" "$3" "$4"
}

# prints IMAGE USER WANTED COMMAND...: checks that the output contains WANTED.
prints() {
	image_name=$1
	as=$2
	wanted=$3
	shift 3
	out=$(in_image "$image_name" "$as" "$@") || out="exit status $?: $out"
	case $out in
	exit\ status*) expect "$image_name" "$*" "$wanted" "$out" ;;
	*"$wanted"*) ;;
	*) expect "$image_name" "$*" "$wanted" "$out" ;;
	esac
}

# programs IMAGE USER PROGRAM...: checks that the image has the programs.
programs() {
	image_name=$1
	as=$2
	shift 2
	prints "$image_name" "$as" "" sh -c 'PATH=$PATH:/usr/sbin:/sbin; for p; do command -v "$p" || exit 1; done' sh "$@"
}

# common IMAGE USER: checks what all images have in common.
common() {
	docker image inspect --format '{{.Size}}' "${prefix}kolla/$1:$version" |
		awk -v name="$1" '{ printf "%-28s %4d MB\n", name, $1 / 1000000 }'
	expect "$1" user "$2" "$(docker image inspect --format '{{or .Config.User "root"}}' "${prefix}kolla/$1:$version")"
	expect "$1" version "$version" "$(docker image inspect \
		--format '{{index .Config.Labels "org.opencontainers.image.version"}}' "${prefix}kolla/$1:$version")"
	expect "$1" "version of kollet" "$(cat "$here/../../VERSION")" "$(docker image inspect \
		--format '{{index .Config.Labels "kollet.version"}}' "${prefix}kolla/$1:$version")"
	expect "$1" "ids of users" \
		"kolla:42400 ceilometer:42405 qemu:42427 neutron:42435 nova:42436 prometheus:42472 openvswitch:42476 libvirt:42473" \
		"$(in_image "$1" root sh -c '
			for u in kolla ceilometer qemu neutron nova prometheus openvswitch; do
				printf "%s:%s " "$u" "$(id -u $u)"
				[ "$(id -u $u)" = "$(id -g $u)" ] || printf "(group %s) " "$(id -g $u)"
			done
			printf "libvirt:%s" "$(getent group libvirt | cut -d: -f3)"')"
	expect "$1" "groups of nova" "kolla libvirt nova qemu" \
		"$(in_image "$1" root sh -c 'id -Gn nova | tr " " "\n" | sort | xargs')"
	expect "$1" "traces of the build" "" "$(in_image "$1" root sh -c '
		ls -d /var/lib/apt/lists/* /var/cache/apt/*.bin /etc/machine-id /var/lib/dbus/machine-id \
			/etc/apt/sources.list.d/* 2>/dev/null
		grep -rhs Proxy /etc/apt
		grep -vsE "^deb https?://[^ @]+ bookworm(-updates|-security)? main$" /etc/apt/sources.list' | xargs)"
	# Known are those of Debian's essential packages, sudo, D-Bus, OpenSSH and NFS.
	expect "$1" "unknown setuid or setgid programs" "" "$(in_image "$1" root \
		find / -xdev -type f -perm /6000 | grep -vE \
		'/(chage|chfn|chsh|dbus-daemon-launch-helper|expiry|gpasswd|mount|mount\.nfs|newgrp|passwd|ssh-agent|ssh-keysign|su|sudo|umount|unix_chkpwd|fusermount3?|pam_extrausers_chkpwd)$' | xargs)"
	expect "$1" "world-writable files" "" "$(in_image "$1" root \
		find / -xdev -type f -perm /0002 | xargs)"
	prints "$1" root "" healthcheck_filemod /etc/passwd 2000000000
}

# sudo_of IMAGE USER CONFIG: checks the sudo rules, and that there is no other way to root.
sudo_of() {
	prints "$1" root "/etc/sudoers: parsed OK" visudo --check
	expect "$1" "sudo for any command" 1 "$(in_image "$1" "$2" sh -c 'sudo -n id >/dev/null 2>&1; echo $?')"
	expect "$1" "privsep-helper with a file of another directory" 1 "$(in_image "$1" "$2" sh -c "
		sudo -n privsep-helper --config-file $3/../../tmp/x.conf --privsep_context x --privsep_sock_path /tmp/x/privsep.sock >/dev/null 2>&1
		echo \$?")"
	expect "$1" "rootwrap for a command without a filter" 99 "$(in_image "$1" "$2" sh -c "
		sudo -n $2-rootwrap $3/rootwrap.conf id >/dev/null 2>&1; echo \$?")"
	expect "$1" "owners of rootwrap's files" "root root root" \
		"$(in_image "$1" root stat -c %U "$3" "$3/rootwrap.conf" "$3/rootwrap.d" | xargs)"
}

common nova-libvirt root
prints nova-libvirt root "libvirtd (libvirt)" libvirtd --version
prints nova-libvirt root "virtlogd (libvirt)" virtlogd --version
prints nova-libvirt root "QEMU emulator" qemu-system-x86_64 --version
prints nova-libvirt root "" virsh --version
prints nova-libvirt root "ovs-vsctl (Open vSwitch)" ovs-vsctl --version
prints nova-libvirt root "42436" id -u nova
programs nova-libvirt root swtpm swtpm_setup saslpasswd2
prints nova-libvirt root "59" id -u tss

common nova-compute nova
prints nova-compute "" "26." nova-compute --version
prints nova-compute "" "qemu-img version" qemu-img --version
prints nova-compute "" "" python3 -c 'import libvirt, os_vif, vif_plug_linux_bridge, vif_plug_ovs, os_brick'
prints nova-compute "" "" python3 -c 'import rados, rbd'
programs nova-compute "" rbd swtpm ssh scp rsync multipath iscsiadm
prints nova-compute "" "59" id -u tss
prints nova-compute "" "" sh -c 'command -v genisoimage ip && touch /var/lib/nova/instances/x'
sudo_of nova-compute nova /etc/nova
prints nova-compute root "" sh -c 'cd /etc/ssl/certs && in=/var/lib/kolla/share/ca-certificates && mkdir -p $in &&
	cp ISRG_Root_X1.pem $in/site.pem && kolla_copy_cacerts && test -e kolla-customca-site.pem'

for agent in linuxbridge openvswitch; do
	name=neutron-$agent-agent
	common "$name" neutron
	prints "$name" "" "$name 21." "$name" --version
	prints "$name" "" "" sh -c 'PATH=$PATH:/usr/sbin:/sbin; command -v iptables ip6tables ipset ebtables conntrack ip bridge arping sysctl'
	sudo_of "$name" neutron /etc/neutron
done
prints neutron-openvswitch-agent "" "Open vSwitch" ovs-ofctl --version
# rootwrap searches sudo's secure_path.
prints neutron-linuxbridge-agent root /usr/local/sbin/ebtables sudo sh -c 'command -v ebtables'

common neutron-ovn-metadata-agent neutron
prints neutron-ovn-metadata-agent "" "neutron-ovn-metadata-agent 21." neutron-ovn-metadata-agent --version
prints neutron-ovn-metadata-agent "" "" sh -c 'PATH=$PATH:/usr/sbin:/sbin; command -v haproxy ip'
sudo_of neutron-ovn-metadata-agent neutron /etc/neutron

common openvswitch-db-server root
prints openvswitch-db-server root "Open vSwitch" ovsdb-server --version
common openvswitch-vswitchd root
prints openvswitch-vswitchd root "Open vSwitch" ovs-vswitchd --version
common ovn-controller root
prints ovn-controller root "ovn-controller 23." ovn-controller --version
prints ovn-controller root "" sh -c 'command -v ovs-vsctl ovs-ofctl ovn-appctl'

# extra IMAGE USER PROGRAM...: checks an image if it is there, and that it has the programs.
extra() {
	docker image inspect "${prefix}kolla/$1:$version" >/dev/null 2>&1 || return 0
	common "$1" "$2"
	programs "$@"
}

extra nova-ssh root sshd scp rsync nova-ssh-start
extra iscsid root iscsid iscsid-start modprobe
extra multipathd root multipathd multipathd-start modprobe
extra ceilometer-compute ceilometer ceilometer-polling pgrep
extra cron root cron logrotate cron-start pgrep
extra prometheus-node-exporter prometheus /opt/node_exporter/node_exporter
extra prometheus-libvirt-exporter prometheus prometheus-libvirt-exporter
if docker image inspect "${prefix}kolla/prometheus-libvirt-exporter:$version" >/dev/null 2>&1; then
	expect prometheus-libvirt-exporter "groups of prometheus" prometheus "$(in_image prometheus-libvirt-exporter root id -Gn prometheus)"
fi

[ "$problems" -eq 0 ] || {
	echo "smoke.sh: $problems problems" >&2
	exit 1
}
