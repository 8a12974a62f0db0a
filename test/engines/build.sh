#!/bin/sh
# Builds container engines and OCI runtimes from their Go modules, and prints a directory for
# each. They are built once and kept in DIRECTORY, as modules are. crun is Debian's.
#
#	build.sh DIRECTORY COMPONENT[@VERSION]...
set -eu
root=$1
shift

# install MODULE PACKAGE...: packages of a module, with the linker's flags in $flags.
install() {
	module=$1
	shift
	for package; do
		GOBIN=$new go install -trimpath -ldflags "-s -w $flags" "$module/$package@$version"
	done
}

# Before version 29 Docker was no module: its requirements are in files of another name.
docker() {
	source=$(go mod download -json "github.com/docker/docker@$version+incompatible" | sed -n 's/^.*"Dir": "\(.*\)".*$/\1/p')
	cp -r "$source" "$new/source"
	chmod -R u+w "$new/source"
	mv "$new/source/vendor.mod" "$new/source/go.mod"
	mv "$new/source/vendor.sum" "$new/source/go.sum"
	go build -C "$new/source" -mod=mod -trimpath -buildvcs=false -ldflags "-s -w -X github.com/docker/docker/dockerversion.Version=${version#v}" -o "$new/" ./cmd/dockerd
	rm -rf "$new/source"
}

# Podman's module is built where its source is, because go install would ask for a list of its versions.
podman() {
	source=$(go mod download -json "github.com/containers/podman/v5@$version" | sed -n 's/^.*"Dir": "\(.*\)".*$/\1/p')
	cp -r "$source" "$new/source"
	chmod -R u+w "$new/source"
	go build -C "$new/source" -mod=mod -trimpath -buildvcs=false -tags "seccomp containers_image_openpgp exclude_graphdriver_btrfs" -ldflags "-s -w" -o "$new/" ./cmd/podman
	rm -rf "$new/source"
}

build() {
	export CGO_ENABLED=0
	flags=
	case $name@$version in
	docker@*) docker ;;
	moby@*)
		flags="-X github.com/moby/moby/v2/dockerversion.Version=29-${version##*-}"
		install github.com/moby/moby/v2 cmd/dockerd
		;;
	containerd@v1.*)
		flags="-X github.com/containerd/containerd/version.Version=$version"
		install github.com/containerd/containerd cmd/containerd cmd/containerd-shim-runc-v2 cmd/ctr
		;;
	containerd@*)
		flags="-X github.com/containerd/containerd/v2/version.Version=$version"
		install github.com/containerd/containerd/v2 cmd/containerd cmd/containerd-shim-runc-v2 cmd/ctr
		;;
	podman@*)
		export CGO_ENABLED=1 # its database and seccomp are in C
		podman
		;;
	runc@*)
		export CGO_ENABLED=1 # it enters namespaces in C
		GOBIN=$new go install -trimpath -tags seccomp -ldflags "-s -w" "github.com/opencontainers/runc@$version"
		;;
	crun@) ln -s "$(command -v crun)" "$new/runc" ;; # engines look for runc
	*)
		echo "build.sh: $component is not known" >&2
		exit 1
		;;
	esac
}

mkdir -p "$root"
for component; do
	name=${component%%@*} version=${component#"$name"}
	version=${version#@}
	if [ ! -d "$root/$component" ]; then
		echo "engines: building $component" >&2
		new=$(mktemp -d "$root/new.XXXXXX")
		trap 'rm -rf "$new"' EXIT
		build
		chmod 755 "$new"
		mv "$new" "$root/$component"
	fi
	echo "$root/$component"
done
