#!/bin/sh
# make cloud: runs an OpenStack control plane for development and tests on this machine, in
# an engine of its own, and makes what a first server needs. make cloud-down removes
# everything.
set -eu
cd "$(dirname "$0")/../.."
checkout=$PWD
mine=/var/lib/kollet-cloud
me="make cloud"
# shellcheck source=test/up/made.sh
. "$checkout/test/up/made.sh"

address=${CLOUD_ADDRESS:-127.0.0.1}
export DOCKER_HOST="unix://$mine/docker.sock"
image=kolla/controller:26.2.2
credentials=$mine/credentials
began=$(date +%s)

main() {
	say "Engine"
	engine
	say "Control plane, for development and tests only"
	controller
	docker exec controller controller-ready --wait 600 ||
		die "a service does not answer; see DOCKER_HOST=$DOCKER_HOST docker exec controller tail -n 50 /var/log/controller/*.log"
	note "all APIs answer $(($(date +%s) - began)) s after the start of this script"
	say "Image, flavor, networks"
	docker exec controller controller-populate
	finish
}

# engine: starts an engine for the control plane, with a copy of the images in
# build/controller. The node's engine can then be restarted while the cloud stays.
engine() {
	if pid=$(pid_of dockerd); then
		note "already running, process $pid"
		return
	fi
	mkdir -p "$mine"
	if [ ! -e "$mine/docker/image" ]; then
		rm -rf "$mine/docker"
		mkdir -m 710 "$mine/docker"
		# Docker does not change the files of a layer, so links will do.
		cp -al build/controller/overlay2 "$mine/docker" 2>/dev/null || {
			rm -rf "$mine/docker/overlay2"
			cp -a build/controller/overlay2 "$mine/docker"
		}
		# The last, and at once: an interrupted copy is begun again.
		cp -a build/controller/image "$mine/docker/image.new"
		mv "$mine/docker/image.new" "$mine/docker/image"
	fi
	making cgroup kollet-cloud
	for path in /run/docker /run/containerd; do
		[ -e "$path" ] || making directory "$path"
	done
	rm -rf "$mine/docker-run" "$mine/docker.pidfile" # of an earlier boot
	echo '{}' >"$mine/daemon.json"
	dockerd=$(command -v dockerd || echo /usr/sbin/dockerd)
	# The machine's containerd may have the containers of another engine in its default
	# namespace.
	start dockerd "$dockerd" --config-file "$mine/daemon.json" --data-root "$mine/docker" \
		--exec-root "$mine/docker-run" --pidfile "$mine/docker.pidfile" --host "$DOCKER_HOST" \
		--containerd-namespace kollet-cloud --containerd-plugins-namespace kollet-cloud-plugins \
		--cgroup-parent /kollet-cloud --bridge none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false
	answers dockerd docker version
	note "started Docker, process $(pid_of dockerd)"
}

# controller: creates or starts the container.
controller() {
	made_for=$(docker inspect --format '{{range .Config.Env}}{{println .}}{{end}}' controller 2>/dev/null | sed -n 's/^CONTROLLER_ADDRESS=//p')
	[ -z "$made_for" ] || [ "$made_for" = "$address" ] ||
		die "the control plane was made for $made_for; run make cloud-down first, or make cloud with CLOUD_ADDRESS=$made_for"
	case $(docker inspect --format '{{.State.Running}}' controller 2>/dev/null) in
	true)
		note "already running"
		return
		;;
	false)
		docker start controller >/dev/null
		note "started again"
		return
		;;
	esac
	for port in 5000 5672 6642 8004 8774 8775 8778 9292 9696; do
		! listens "$port" || die "port $port is in use; stop what listens there (make down, if it is the message bus of make up), and run make cloud again"
	done
	mkdir -p "$credentials"
	docker run --detach --name controller --network host --stop-timeout 60 \
		--cap-drop ALL --cap-add CHOWN --cap-add DAC_OVERRIDE --cap-add FOWNER \
		--cap-add SETUID --cap-add SETGID --cap-add KILL --security-opt no-new-privileges \
		--env CONTROLLER_ADDRESS="$address" --volume controller:/var/lib/controller \
		--volume "$credentials:/credentials" --volume "$checkout/build/guest:/guest:ro" "$image" >/dev/null
	note "started; services listen on $address"
}

finish() {
	cat <<-TEXT

		The cloud has no compute node yet. It is no production control plane: no TLS, no redundancy.
		Ask it:        alias cloud='docker --host $DOCKER_HOST exec controller openstack'
		               cloud compute service list
		From outside:  . $credentials/openrc, or OS_CLIENT_CONFIG_FILE=$credentials/clouds.yaml OS_CLOUD=kollet
		A node:        make up, which makes this machine a node of the cloud
		Another node:  /etc/kollet/node.yaml with images, and
		                 network: linuxbridge
		                 vars:
		                   rabbit_host: $address
		                   auth_url: http://$address:5000/v3
		                   my_ip: ADDRESS OF THE NODE
		                   virt_type: qemu
		                   physical_interface_mappings: physnet1:INTERFACE
		                 secrets: # copies of the files in $credentials/secrets
		                   rabbit_password: {file: /etc/kollet/secrets/rabbit_password}
		                   nova_password: {file: /etc/kollet/secrets/nova_password}
		                   placement_password: {file: /etc/kollet/secrets/placement_password}
		                   neutron_password: {file: /etc/kollet/secrets/neutron_password}
		                 openstack: # kollet asks Nova and Neutron about the node
		                   username: nova
		                   password: nova_password
		               kollet bootstrap; the node appears within some seconds
		With OVN:      the same, but
		                 network: ovn
		                 vars: # instead of physical_interface_mappings
		                   ovn_sb_connection: tcp:$address:6642
		                   nova_metadata_host: $address
		                 secrets:
		                   metadata_secret: {file: /etc/kollet/secrets/metadata_secret}
		A server:      cloud server create --image guest --flavor tiny --network provider a
		               cloud console log show a
		               On a node with OVN, --network overlay: it shows its address and metadata.
		Remove it:     make cloud-down
	TEXT
}

main
