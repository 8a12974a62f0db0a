#!/bin/sh
# make up: demonstrates kollet on this machine. It makes the machine a containerised
# compute node, of the cloud of make cloud if that runs, boots a guest, and upgrades libvirt
# while it shows the guest's console. make down removes everything.
set -eu
cd "$(dirname "$0")/../.."
checkout=$PWD
here=$checkout/test/up
# shellcheck source=test/up/made.sh
. "$here/made.sh"

PATH=$checkout/bin:$PATH
export DOCKER_HOST=unix:///var/run/docker.sock
registry=127.0.0.1:${REGISTRY_PORT:-4000}
old=26.2.2
new=26.2.2-1
node_file=/etc/kollet/node.yaml
password_file=/etc/kollet/secrets/rabbit_password
cloud=/var/lib/kollet-cloud/credentials
guest=demo
uuid=6a1f2c9e-3f0b-4a58-9d0c-8d1f6f5b7e21

main() {
	check
	say "Host"
	# shellcheck source=test/up/host.sh
	. "$here/host.sh"
	capabilities
	shared_run
	modules
	engine
	registry
	if clouded; then provider; else rabbit; fi
	say "Node file $node_file"
	node_file
	say "Prechecks"
	run kollet doctor || die "kollet doctor found problems; fix them as described above, then run make up again"
	say "The node"
	bootstrap
	say "A guest"
	boot
	say "Plan of the libvirt upgrade"
	upgrade
	say "The node after the upgrade"
	run kollet guests
	run kollet history
	run kollet status
	finish
}

# check: refuses machines that are a kollet node already.
check() {
	if [ -e "$node_file" ] && ! made file "$node_file" || [ -e /var/lib/kollet ] && ! made tree /var/lib/kollet; then
		die "this machine is already a kollet node ($node_file, /var/lib/kollet); run make up on another machine"
	fi
	mkdir -p "$mine"
}

# run: prints a command and runs it.
run() {
	printf '$ %s\n' "$*"
	"$@"
}

# node_file: writes the node file, unless it exists.
node_file() {
	if [ -e "$node_file" ]; then
		if clouded && grep -q 'auth_url: none' "$node_file"; then
			die "this node was made without a control plane; run make down, then make up again"
		fi
		note "exists already"
		return
	fi
	directory /etc/kollet
	making file "$node_file"
	{
		cat <<-YAML
			profile: compute
			engine: docker
			images: {registry: $registry/kolla, tag: "$old"}
			network: linuxbridge
		YAML
		if clouded; then in_cloud; else alone; fi
	} >"$node_file"
	sed 's/^/    /' "$node_file"
}

alone() {
	cat <<-YAML
		vars:
		  virt_type: ${VIRT_TYPE:-qemu} # emulation, which works everywhere; use kvm if the machine has it
		  rabbit_host: 127.0.0.1
		  auth_url: none # no control plane
		secrets:
		  rabbit_password: {file: $password_file}
	YAML
}

in_cloud() {
	auth_url=$(sed -n 's/^export OS_AUTH_URL=//p' "$cloud/openrc")
	address=${auth_url#*://}
	address=${address%:*}
	cat <<-YAML
		vars:
		  virt_type: ${VIRT_TYPE:-qemu} # emulation, which works everywhere; use kvm if the machine has it
		  rabbit_host: $address
		  auth_url: $auth_url
		  my_ip: $address
		  physical_interface_mappings: physnet1:$interface
		secrets:
		  rabbit_password: {file: $cloud/secrets/rabbit_password}
		  nova_password: {file: $cloud/secrets/nova_password}
		  placement_password: {file: $cloud/secrets/placement_password}
		  neutron_password: {file: $cloud/secrets/neutron_password}
		openstack: # kollet asks Nova and Neutron about the node
		  username: nova # has the rights; on your own nodes, use a user of kollet's own
		  password: nova_password
	YAML
}

bootstrap() {
	if [ -e /var/lib/kollet/current ]; then
		note "exists already"
		run kollet status || true # the next steps report problems
		return
	fi
	# What the node and its containers create on the machine.
	making images "$registry/kolla"
	for path in /var/lib/kollet /var/log/kollet /run/libvirt /run/libvirtd.pid /run/virtlogd.pid; do
		[ -e "$path" ] || making tree "$path"
	done
	for group in machine kollet-guests; do
		ls -d "/sys/fs/cgroup/$group" /sys/fs/cgroup/*/"$group" >/dev/null 2>&1 || making cgroup "$group"
	done
	iptables-save 2>/dev/null | grep -q neutron- || making rules neutron
	making node /var/lib/kollet
	run kollet bootstrap || die "kollet bootstrap failed; see above, and kollet logs SERVICE"
}

# instance: prints the guest's directory on this machine, which is in the volume of
# libvirt and nova-compute.
instance() {
	echo "$(docker volume inspect --format '{{.Mountpoint}}' nova_compute)/instances/$uuid"
}

virsh() { kollet exec nova-libvirt -- virsh "$@"; }

boot() {
	dir=$(instance)
	if virsh list --uuid | grep -q "$uuid"; then
		note "$guest is already running"
	else
		inside=/var/lib/nova/instances/$uuid
		mkdir -p "$dir"
		rm -f "$dir/console.log" # of an earlier run
		cp build/guest/vmlinuz build/guest/initrd "$dir"
		guest xml "$guest" "$uuid" "$inside" >"$dir/domain.xml"
		run kollet exec nova-libvirt -- virsh define "$inside/domain.xml"
		run kollet exec nova-libvirt -- virsh start "$guest"
	fi
	run kollet guests
	pid=$(kollet guests --output json | tr -d '\n' | tr '{' '\n' | grep "\"$uuid\"" | sed 's/.*"pid": *\([0-9]*\).*/\1/')
	[ -n "$pid" ] || die "kollet does not know the guest"
	note "waiting for its console"
	for _ in $(seq 600); do
		grep -q '^tick' "$dir/console.log" 2>/dev/null && break
		sleep 0.2
	done
	run guest watch "$dir/console.log" "$pid" true
}

# upgrade: upgrades to the version that is not running.
upgrade() {
	to=$new
	! kollet status | grep -q "/nova-libvirt:$new " || to=$old
	image=nova-libvirt=$registry/kolla/nova-libvirt:$to
	run kollet plan --image "$image"
	say "The upgrade, with the guest's console"
	run guest watch "$dir/console.log" "$pid" kollet upgrade --image "$image" ||
		die "the upgrade failed or the guest did not survive it; see above, kollet history and kollet logs nova-libvirt"
	virsh list --uuid | grep -q "$uuid" || die "libvirt no longer knows the guest"
}

finish() {
	cat <<-TEXT

		The guest that the old libvirt started keeps running under the new one, process $pid.
		Explore:         export DOCKER_HOST=$DOCKER_HOST PATH=$checkout/bin:\$PATH
		                 kollet help; kollet exec nova-libvirt -- virsh list
		Upgrade again:   make up
		Remove it:       make down
	TEXT
	! clouded || note "a server: docker --host unix:///var/lib/kollet-cloud/docker.sock exec controller openstack server create --image guest --flavor tiny --network provider a"
}

main
