#!/bin/sh
# What a compute node's containers need of their host, as far as it is missing:
# sourced by up.sh. Daemons listen on the loopback device alone.

# shellcheck disable=SC2154 # registry and password_file are up.sh's
: "$mine $registry $password_file"

systemd() { [ -d /run/systemd/system ]; }

# restricted: does this machine's capability bounding set lack something?
# Containers in turn, some sandboxes and some VMs are like that.
restricted() {
	bounding=$((0x$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status)))
	top=$(cat /proc/sys/kernel/cap_last_cap)
	[ $((bounding & ((1 << (top + 1)) - 1))) != $(((1 << (top + 1)) - 1)) ]
}

capabilities() {
	if restricted; then
		note "the capability bounding set of this machine is restricted: Docker could start no privileged container;"
		note "as the tests do, it gets a runtime that leaves the missing capabilities out: $PWD/bin/oci-runtime-bounded"
	fi
}

# shared_run: mounts that containers make below /run must be seen by others, so
# /run must be a shared mount: mount_namespaces(7). systemd makes it one.
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
	note "/run is a shared mount now"
}

# modules: the profile mounts /lib/modules; a machine whose kernel has none may
# lack the directory.
modules() { directory /lib/modules; }

engine() {
	if docker version >/dev/null 2>&1; then
		if pid=$(pid_of dockerd); then
			note "Docker runs already, process $pid, started by make up"
			return
		fi
		note "Docker runs already; it is used"
		if restricted && [ "$(docker info --format '{{.DefaultRuntime}}')" = runc ]; then
			die "it cannot start privileged containers here. Put into /etc/docker/daemon.json, and restart it:
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
		rm -rf "$mine/docker-run" # of before a reboot: it would lead dockerd astray
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
	note "Docker started, process $(pid_of dockerd)"
}

# registry serves the images that make built.
registry() {
	if pid=$(pid_of registry); then
		note "registry of images runs already, process $pid"
		return
	fi
	port=${registry##*:}
	! listens "$port" || die "somebody else listens on port $port; choose another one: make up REGISTRY_PORT=…"
	cat >"$mine/registry.yml" <<-YAML
		version: 0.1
		storage:
		  filesystem: {rootdirectory: $PWD/build/registry}
		  maintenance: {readonly: {enabled: true}}
		http: {addr: $registry}
	YAML
	start registry docker-registry serve "$mine/registry.yml"
	answers registry curl -fs "http://$registry/v2/"
	note "registry of images started at $registry, process $(pid_of registry)"
}

# secret makes the message bus's password, or keeps the one that is there.
secret() {
	[ -s "$password_file" ] && return
	directory /etc/kollet
	directory /etc/kollet/secrets 700
	making file "$password_file"
	(umask 077 && head -c 18 /dev/urandom | base64 | tr -d '/+=\n' >"$password_file")
}

# rabbit is the message bus that OpenStack's services talk over.
rabbit() {
	if pid=$(pid_of rabbitmq); then
		note "RabbitMQ runs already, process $pid"
		return
	fi
	if listens 5672; then
		[ -s "$password_file" ] || die "a message bus listens on port 5672; put the password of its user openstack into $password_file"
		note "a message bus listens on port 5672; it is used"
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
	# RUNNING_UNDER_SYSTEMD: the script becomes Erlang and does not wait for it.
	# +sbwt none: its threads do not spin while they wait, erl(1).
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
	# Erlang's port mapper was started along, and stays until it is told to go.
	[ -n "$mapper" ] || remember epmd "$(ss -Hltnp 'sport = :4369' | sed -n 's/.*pid=\([0-9]*\),.*/\1/p' | head -n 1)"
	note "RabbitMQ started on port 5672, process $(pid_of rabbitmq)"
}
