#!/bin/bash
# Runs what depends on the engine on each engine of the matrix, or on those named: the tests
# of package containers, the tests of the protocol, of crashes, of sick nodes and of a compute
# node with a guest, and for a built one an upgrade of the machine's own engine to it, for Docker
# also in a virtual machine with systemd and cgroup v2, under a guest. It continues after a
# failure, and prints a table at the end.
#
#	test.sh DIRECTORY [NAME...]
#
# DIRECTORY is where engines are built.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
directory=$1
shift
tests='TestProtocol TestCrash TestSickNode TestTinyGuests'
export KOLLET_TEST_LONG=yes # TestCrash kills kollet on each engine
others='TestFirstBoot TestUninstall TestHiddenContainers TestAnotherEngine' # which make test-long runs on the engines that it has

known=$(sed 's/#.*//' test/engines/matrix | awk 'NF {print $1}')
for name; do
	grep -qxF -- "$name" <<<"$known" || {
		echo "test-engines: $name is not in test/engines/matrix, which has: ${known//$'\n'/ }" >&2
		exit 1
	}
done

# versions prints what is found first in PATH.
versions() {
	case $1 in
	docker*) dockerd --version ;;
	podman*) podman --version ;;
	esac
	case $1 in podman*) ;; *) containerd --version ;; esac
	runc --version | head -n 1
}

# nodes ENGINE PACKAGE TEST... runs tests on an engine. Each has to have a part for the engine,
# which go test does not mind if it has none.
nodes() {
	local engine=$1 package=$2 output passed=0
	shift 2
	output=$(mktemp)
	test/make/gotest.sh -v -count=1 -tags "$tags" -timeout 60m -run "^($(IFS='|' && echo "$*"))\$/^$engine\$" "$package" | tee "$output" | grep -v '^=== '
	passed=${PIPESTATUS[0]}
	for test; do
		grep -q "^    --- PASS: $test/$engine " "$output" || {
			echo "test-engines: $test did not pass on $engine"
			passed=1
		}
	done
	rm -f "$output"
	return "$passed"
}

table=
status=0
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $known
for name; do
	components=$(sed 's/#.*//' test/engines/matrix | awk -v name="$name" '$1 == name {$1 = ""; print}')
	# shellcheck disable=SC2086
	if ! built=$(test/engines/build.sh "$directory" $components); then
		table+="$name: not built"$'\n' status=1
		continue
	fi
	path=${built//$'\n'/:}${built:+:}$PATH
	printf '\n=== %s\n' "$name"
	(export PATH=$path && versions "$name")
	case $components in *crun*) export KOLLET_MACHINE_CGROUPS=v1 ;; *) unset KOLLET_MACHINE_CGROUPS ;; esac
	start=$SECONDS result=ok
	engine=${name%%-*}
	tags='' more=''
	[ "$engine" = podman ] && tags=podman more=$others # no Podman of Debian's is supported, so make test has none
	PATH=$path test/make/gotest.sh -count=1 -tags "$tags" -timeout 30m "./containers/$engine" || result=FAILED status=1
	# shellcheck disable=SC2086
	PATH=$path nodes "$engine" ./test/e2e $tests $more || result=FAILED status=1
	PATH=$path nodes "$engine" ./test/computenode TestComputeNode || result=FAILED status=1
	case $components in
	*containerd@*)
		export KOLLET_TEST_NEWER_ENGINE=${built//$'\n'/:}
		test/make/gotest.sh -count=1 -run "^TestNewerEngine\$/^$engine\$" ./test/e2e || result=FAILED status=1
		if [ "$engine" = docker ]; then
			test/make/gotest.sh -count=1 -timeout 60m -run '^TestGuestUnderNewerDocker$' ./test/vm || result=FAILED status=1
		fi
		unset KOLLET_TEST_NEWER_ENGINE
		;;
	esac
	table+=$(printf '%-20s %s, %d min %02d s' "$name" "$result" $(((SECONDS - start) / 60)) $(((SECONDS - start) % 60)))$'\n'
done
printf '\n=== engines\n%s' "$table"
exit $status
