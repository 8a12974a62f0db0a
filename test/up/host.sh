#!/bin/sh
# Sets up what the containers of a compute node need on their host, where it is
# missing. Sourced by up.sh. Daemons listen on the loopback device only.

# shellcheck disable=SC2154 # up.sh sets these
: "$mine $registry $password_file $cloud"
interface=kollet-phys # of the cloud's network provider

systemd() { [ -d /run/systemd/system ]; }

# restricted: does the machine's capability bounding set lack capabilities? That is
# so in containers, in some sandboxes and in some virtual machines.
restricted() {
	bounding=$((0x$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status)))
	top=$(cat /proc/sys/kernel/cap_last_cap)
	[ $((bounding & ((1 << (top + 1)) - 1))) != $(((1 << (top + 1)) - 1)) ]
}

capabilities() {
	if restricted; then
		note "the machine's capability bounding set is restricted, so Docker cannot start privileged containers;"
		note "it gets the tests' runtime, which leaves out the missing capabilities: $PWD/bin/oci-runtime-bounded"
	fi
}

# shared_run: containers must see each other's mounts below /run, so /run must be a
# shared mount, mount_namespaces(7). systemd makes it one.
shared_run() {
	case $(findmnt --noheadings --output PROPAGATION --target /run) in
	*shared*) return ;;
	esac
	if mountpoint -q /run; then
		making shared /run
	else
		making mount /run
		mount --rbind /run /run
	fi
	mount --make-rshared /run
	note "/run is now a shared mount"
}

# modules: the profile mounts /lib/modules, which may not exist on a machine whose
# kernel has no modules.
modules() { directory /lib/modules; }

engine() {
	if docker version >/dev/null 2>&1; then
		if pid=$(pid_of dockerd); then
			note "Docker is already running, process $pid, started by make up"
			return
		fi
		note "using the running Docker"
		if restricted && [ "$(docker info --format '{{.DefaultRuntime}}')" = runc ]; then
			die "Docker cannot start privileged containers here. Put this into /etc/docker/daemon.json and restart Docker:
  {\"runtimes\": {\"bounded\": {\"path\": \"$PWD/bin/oci-runtime-bounded\"}}, \"default-runtime\": \"bounded\"}"
		fi
		return
	fi
	if systemd && ! restricted; then
		[ -e /sys/class/net/docker0 ] || making link docker0
		making service docker
		run systemctl start docker
		return
	fi
	dockerd=$(command -v dockerd || echo /usr/sbin/dockerd)
	boot=$(cat /proc/sys/kernel/random/boot_id)
	if [ "$(cat "$mine/boot" 2>/dev/null)" != "$boot" ]; then
		rm -rf "$mine/docker-run" # from before a reboot; dockerd would use stale data
		echo "$boot" >"$mine/boot"
	fi
	making cgroup kollet-up
	for path in /run/docker /run/containerd; do
		[ -e "$path" ] || making tree "$path"
	done
	echo '{}' >"$mine/daemon.json"
	set -- --config-file "$mine/daemon.json" --data-root "$mine/docker" --exec-root "$mine/docker-run" --pidfile "$mine/docker.pid" \
		--host "$DOCKER_HOST" --live-restore --cgroup-parent /kollet-up \
		--bridge none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false
	if restricted; then
		set -- "$@" --add-runtime "bounded=$PWD/bin/oci-runtime-bounded" --default-runtime bounded
	fi
	start dockerd "$dockerd" "$@"
	answers dockerd docker version
	note "started Docker, process $(pid_of dockerd)"
}

# registry: serves the images that make built.
registry() {
	if pid=$(pid_of registry); then
		note "the image registry is already running, process $pid"
		return
	fi
	port=${registry##*:}
	! listens "$port" || die "port $port is in use; choose another one: make up REGISTRY_PORT=…"
	cat >"$mine/registry.yml" <<-YAML
		version: 0.1
		storage:
		  filesystem: {rootdirectory: $PWD/build/registry}
		  maintenance: {readonly: {enabled: true}}
		http: {addr: $registry}
	YAML
	start registry docker-registry serve "$mine/registry.yml"
	answers registry curl -fs "http://$registry/v2/"
	note "started the image registry at $registry, process $(pid_of registry)"
}

# clouded: does the control plane of make cloud run?
clouded() { [ -e "$cloud/openrc" ] && listens 5000; }

# provider: creates the interface of the physical network on which the cloud's network
# provider is. Nothing is behind it.
provider() {
	note "this will be a node of the cloud of make cloud"
	[ ! -e "/sys/class/net/$interface" ] || return 0
	making link "$interface"
	ip link add "$interface" type veth peer name "$interface-end"
	ip link set "$interface-end" up
	ip link set "$interface" up
}

# secret: creates the password of the message bus, unless it exists.
secret() {
	[ -s "$password_file" ] && return
	directory /etc/kollet
	directory /etc/kollet/secrets 700
	making file "$password_file"
	(umask 077 && head -c 18 /dev/urandom | base64 | tr -d '/+=\n' >"$password_file")
}

# rabbit: starts the message bus of OpenStack's services.
rabbit() {
	if pid=$(pid_of rabbitmq); then
		note "RabbitMQ is already running, process $pid"
		return
	fi
	if listens 5672; then
		[ -s "$password_file" ] || die "a message bus is running on port 5672; put the password of its user openstack into $password_file"
		note "using the message bus on port 5672"
		return
	fi
	secret
	# The script in the PATH writes to /var/log and needs a host name that resolves.
	bin=/usr/lib/rabbitmq/bin
	dir=$mine/rabbitmq
	install -d -o rabbitmq -g rabbitmq -m 700 "$dir"
	(
		umask 077
		cat >"$dir/rabbitmq.conf" <<-CONF
			listeners.tcp.local = 127.0.0.1:5672
			default_user = openstack
			default_pass = $(cat "$password_file")
			log.console = true
			log.file = false
		CONF
	)
	chown rabbitmq: "$dir/rabbitmq.conf"
	listens 4369 && mapper=there || mapper=
	# RUNNING_UNDER_SYSTEMD: the script executes Erlang instead of waiting for it.
	# +sbwt none: idle threads do not spin, erl(1).
	start rabbitmq setpriv --reuid rabbitmq --regid rabbitmq --init-groups env -i --chdir / \
		PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME="$dir" \
		RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_CONFIG_FILE="$dir/rabbitmq.conf" \
		RABBITMQ_NODENAME=kollet-up@localhost ERL_EPMD_ADDRESS=127.0.0.1 \
		RABBITMQ_MNESIA_BASE="$dir/mnesia" RABBITMQ_LOG_BASE="$dir" RABBITMQ_PID_FILE="$dir/pid" \
		RABBITMQ_ENABLED_PLUGINS_FILE="$dir/enabled_plugins" RABBITMQ_GENERATED_CONFIG_DIR="$dir/generated" \
		RUNNING_UNDER_SYSTEMD=1 \
		RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}' \
		"$bin/rabbitmq-server"
	answers rabbitmq listens 5672
	# RabbitMQ also started Erlang's port mapper, which keeps running until it is stopped.
	[ -n "$mapper" ] || remember epmd "$(ss -Hltnp 'sport = :4369' | sed -n 's/.*pid=\([0-9]*\),.*/\1/p' | head -n 1)"
	note "started RabbitMQ on port 5672, process $(pid_of rabbitmq)"
}
