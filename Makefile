# Everything that a developer does with this tree. make is the only prerequisite on
# Debian 12, as root: `make up` runs a compute node on this machine, `make test` runs
# every test except the slow ones, which have targets of their own, and `make check`
# those that need no root.

# Go is installed here if the machine has none that is new enough.
GOROOT_OWN := /usr/local/lib/kollet-go
export PATH := $(GOROOT_OWN)/bin:$(PATH):/usr/sbin:/sbin
# Go must not download another version of itself.
export GOTOOLCHAIN := local
unexport GOROOT
# No debugger's tables, which take a fifth of the time to compile: the programs are
# stripped of them, and stack traces do not need them.
export GOFLAGS := -gcflags=all=-dwarf=false

# Where everything except programs is built. Tests look here.
export KOLLET_BUILD := $(CURDIR)/build

VERSION := $(shell cat VERSION)
COMMIT  = $(shell git describe --always --dirty --exclude '*' 2>/dev/null)
STATIC  = CGO_ENABLED=0 go build -trimpath -buildvcs=false
LDFLAGS = -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# Images for the tests and for make up, in two versions that differ in their label
# only.
IMAGES         := nova-libvirt nova-compute neutron-linuxbridge-agent \
                  neutron-openvswitch-agent openvswitch-db-server openvswitch-vswitchd \
                  ovn-controller neutron-ovn-metadata-agent
IMAGE_VERSIONS := 26.2.2 26.2.2-1
# Images of services that the profile has switched off.
EXTRA_IMAGES   := nova-ssh iscsid multipathd ceilometer-compute cron \
                  prometheus-node-exporter prometheus-libvirt-exporter

GOLANGCI_LINT_VERSION := v2.15.0
GOVULNCHECK   := golang.org/x/vuln/cmd/govulncheck@v1.8.0
BENCHSTAT     := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

# golangci-lint takes minutes to compile, so it is compiled once, into a directory
# outside of the tree, and kept there as modules are.
TOOLS         ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kollet
GOLANGCI_LINT := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION)

TEST_FLAGS ?= -race
FUZZ_TIME  ?= 30s
BENCH_ROUNDS ?= 30
# The order of the faults of make chaos, and how long each of its tables may take, such
# as 10m; 0s is until every fault was injected at every call.
CHAOS_SEED := $(or $(CHAOS_SEED),$(shell date +%s))
CHAOS_TIME ?= 0s
# How many nodes make chaos attacks at once, each on an engine of its own. They wait most of
# the time: twice as many as processors make half as many attempts more.
CHAOS_NODES ?= 4
# How many kills at any moment make chaos makes on each engine.
CHAOS_KILLS ?= 500
# Which part of the faults of the engine, of system calls and of kills make chaos injects, such as
# 2/3; none: all. And yes to inject none in the recoveries that follow.
CHAOS_PART ?=
CHAOS_ONCE ?=
# Which tests of make chaos, a file from which it continues and to which it appends every
# attempt, and yes to continue the file of another build.
CHAOS_TESTS    ?= .
CHAOS_PROGRESS ?=
CHAOS_CONTINUE ?=
# Which engines make test-engines tests; none: all of test/engines/matrix.
ENGINES ?=

phase = test/make/phase.sh
parts = go list ./... | grep -vE '/test/(cloud|computenode|e2e|extra|faults|fleet|operations|rolling|stack|vm)$$'
# Packages whose tests need no daemons: those that do not use test/machine, which
# starts them. Tests among them that need root say so with needs.Root, and are
# skipped without it; make test runs all as root. Heat's engine takes longer to load
# than any of them, and is tested with those that need daemons. So is the model, which
# needs spin and a minute of both processors.
quick = go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}} {{end}}' ./... | \
        grep -vE '/test/machine |/test/heat |/test/model ' | cut -d ' ' -f 1
# These are tested without the race detector here, and with it in make test: with it,
# both engines' clients would have to be compiled again for the command line, and the
# others take several times as long.
space := $(subst ,, )
as-built-tests = cmd/kollet cmd/kollet-start test/recordings test/wording
as-built = CGO_ENABLED=0 GOFLAGS='$(GOFLAGS) -trimpath'
# The same flags in check and in unit, so that unit finds check's results in the cache.
# Vet is among the linters, and nobody debugs these programs.
unit-flags = $(TEST_FLAGS) -vet=off -ldflags=-w -timeout 20m
# The race detector makes each program wait for a second when it exits, for reports
# of other threads.
export GORACE := atexit_sleep_ms=0

measure = go test -run '^$$' -timeout 120m ./test/bench -bench

.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help up down cloud cloud-down cloud-upgrade check check-unit check-built check-command collection test test-cloud test-long test-stack test-engines test-extra test-podman unit e2e start program build deps tools lint vulncheck chaos guest images extra-images controller-image node-image other-images first-boot test-vm fuzz corpus bench bench-cloud bench-fleet bench-network recordings man clean

help: ## show this
	@echo "targets:"
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

up: ## run a compute node on this machine, of the cloud of make cloud if that runs, boot a guest, upgrade libvirt under it
	@$(MAKE) --no-print-directory deps build guest images
	@test/up/up.sh

down: ## remove everything that make up created
	@[ -x bin/kollet ] || $(MAKE) --no-print-directory build
	@test/up/down.sh

cloud: ## run an OpenStack control plane for development and tests on this machine
	@$(MAKE) --no-print-directory deps guest controller-image
	@test/cloud/up.sh

cloud-down: ## remove everything that make cloud created
	@test/cloud/down.sh

# Go's compiler, linker and linters end before collecting garbage has paid off: without
# it they take a tenth less time.
check: export GOGC := off
check: export GOMEMLIMIT := 3GiB
check: tools ## build, lint, and run the tests that need neither root nor daemons; about three minutes
	@$(MAKE) --no-print-directory start
	@test/make/together.sh check-unit check-built
	@[ "$$(id -u)" = 0 ] || echo "check: the tests that need root were skipped: $$(grep -rl --include=*_test.go 'needs\.Root(' . | xargs -n 1 dirname | sort -u | xargs); make test runs them"

check-unit:
	test/make/gotest.sh $(unit-flags) $$($(quick) | grep -vE '/($(subst $(space),|,$(as-built-tests)))$$')

# What is compiled like the programs waits for them, to find its packages in the cache.
check-built: program
	@test/make/together.sh check-command lint

check-command:
	env $(as-built) test/make/gotest.sh -timeout 20m $(addprefix ./,$(as-built-tests))

test: ## set up what is missing, then run all tests except test-vm, test-cloud, test-long, test-engines, test-extra, test-podman, chaos, fuzz and bench*
	@$(phase) "packages and Go" $(MAKE) --no-print-directory deps tools
	@test/make/together.sh lint collection
	@$(phase) guest $(MAKE) --no-print-directory guest
	@test/make/together.sh unit images
	@test/make/together.sh e2e other-images
	@$(phase) "first boot" $(MAKE) --no-print-directory first-boot
	@$(phase) "a server in a cloud" $(MAKE) --no-print-directory cloud-upgrade

collection: ## check the Ansible collection: its unit tests, linters and documentation
	@playbooks/tests/check.sh

unit: build guest ## all unit tests, also those that need root and daemons
	test/make/gotest.sh $(unit-flags) $$($(parts))

e2e: build guest images ## the end-to-end tests
	test/make/gotest.sh -timeout 60m ./test/computenode ./test/fleet ./test/e2e ./test/faults

test-long: build guest images ## what make test shortens: kills after every record, and the end-to-end tests on each engine; two hours
	KOLLET_TEST_LONG=yes test/make/gotest.sh -count=1 -v -timeout 4h ./test/computenode ./test/e2e

test-extra: build guest images extra-images ## the services that are switched off by default; six minutes
	@test/make/deps.sh openssh-client
	test/make/gotest.sh -count=1 -v -timeout 30m ./test/extra

cloud-upgrade: build guest images controller-image ## make a server, upgrade all under it, and make another; the short part of test-cloud
	test/make/gotest.sh -v -timeout 20m -run '^TestServerSurvives$$' ./test/cloud

test-cloud: build guest images controller-image ## the tests with an OpenStack control plane; two hours
	@$(phase) "control plane" test/make/gotest.sh -count=1 -v -timeout 4h -p 1 ./test/cloud ./test/operations ./test/rolling
	@$(phase) "stack of nodes" $(MAKE) --no-print-directory test-stack

test-stack: node-image guest images controller-image ## the part of test-cloud in which Heat creates compute nodes; 40 minutes
	test/make/gotest.sh -count=1 -v -timeout 90m ./test/stack

# Engines take a quarter of an hour to compile, and are kept where the linters are.
test-engines: build guest images node-image ## the tests that depend on the engine, on each of test/engines/matrix or on ENGINES="NAME..."; two hours
	@test/make/deps.sh crun libseccomp-dev pkg-config conmon netavark
	@test/engines/test.sh $(TOOLS)/engines $(ENGINES)

test-podman: ## the engines' tests on Debian's Podman 4.3, which is not supported; five minutes
	@test/make/deps.sh podman
	@go test -count=1 -tags podman -run TestPodman -timeout 30m -v ./containers/docker | grep -E '^ *(--- |[a-z]+\.go:)'

# kollet contains kollet-start.
start:
	$(STATIC) -ldflags "-s -w" -o bin/kollet-start ./cmd/kollet-start
	@cmp -s bin/kollet-start agent/gate/start/kollet-start || cp bin/kollet-start agent/gate/start/kollet-start

program: start
	$(STATIC) -ldflags "$(LDFLAGS)" -o bin/kollet ./cmd/kollet

build: program ## static programs in bin/
	$(STATIC) -ldflags "$(LDFLAGS)" -tags faults -o bin/kollet-faults ./cmd/kollet
	$(STATIC) -ldflags "-s -w" -o bin/ ./test/cmd/...

deps: ## install missing Debian packages, and Go if there is none
	@test/make/deps.sh
	@test/make/toolchain.sh $(GOROOT_OWN)

tools: $(GOLANGCI_LINT) ## compile golangci-lint once
$(GOLANGCI_LINT):
	@mkdir -p $(@D)
	CGO_ENABLED=0 GOBIN=$(@D)/new go install -ldflags '-s -w' github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv $(@D)/new/golangci-lint $@ && rmdir $(@D)/new

# golangci-lint runs gofmt, go vet and staticcheck among others. Built like the
# programs, packages come from the same cache. Of each pair of files that the tag
# faults selects from, it sees one; go vet sees the other. Like everything in check, it
# collects garbage only if it needs more than 3 GiB, which saves a third of its time.
lint: tools program ## the linters of .golangci.yml, shellcheck, package hosts, versions
	$(as-built) GOGC=off GOMEMLIMIT=3GiB $(GOLANGCI_LINT) run --allow-parallel-runners ./...
	$(as-built) go vet ./agent/journal ./cmd/kollet
	@echo shellcheck
	@test/make/scripts.sh
	@echo "package hosts"
	@test/make/hosts.sh
	@echo versions
	@test/make/versions.sh

vulncheck: ## known vulnerabilities in what kollet is built from; asks the Go vulnerability database
	@go run $(GOVULNCHECK) ./... || { echo "vulncheck: vulnerabilities were found, or the database could not be reached; GOVULNDB can name a mirror of it" >&2; exit 1; }

guest: build/guest/.done ## kernel and initramfs for the tests' guests
build/guest/.done: test/guest/build.sh test/guest/init test/guest/lease
	test/guest/build.sh build/guest || { apt-get -qq update && test/guest/build.sh build/guest; }
	@touch $@

# The end-to-end tests mostly wait, and need neither of these. They run the programs, which
# are not built again meanwhile.
other-images:
	@$(phase) "node image" $(MAKE) --no-print-directory -o deps -o build node-image
	@$(phase) "control plane's image" $(MAKE) --no-print-directory controller-image

images: ## the container images, in build/registry
	@test/make/images.sh "$(IMAGES)" "$(IMAGE_VERSIONS)"

extra-images: ## the images of services that are switched off by default, in build/extra
	@test/make/images.sh "$(EXTRA_IMAGES)" "$(IMAGE_VERSIONS)" build/extra

controller-image: ## the image of the control plane for development and tests, in build/controller
	@test/make/controller.sh $(firstword $(IMAGE_VERSIONS))

node-image: deps build ## the node image: disk, kernel, ramdisk and root file system, in build/node
	@test/make/deps.sh fdisk mtools e2fsprogs
	@containers/node-image/build.sh build/node

first-boot: node-image ## boot the node image twice; the short part of test-vm
	test/make/gotest.sh -v -timeout 60m -run 'TestFirstBoot/nocloud' ./test/vm

test-vm: node-image guest images extra-images ## first boots, a guest, a volume and power losses in virtual machines; an hour
	@test/make/deps.sh tgt
	@$(phase) "virtual machines" test/make/gotest.sh -count=1 -v -timeout 3h ./test/vm

chaos: build guest images ## let every call of the engine and of the state's files fail, kill kollet and the engine at every record, and kollet at any moment, lose power at every flush, start guests at any moment, kill kollet while it replaces libvirt; for hours, or CHAOS_TIME for each table; CHAOS_PROGRESS=FILE continues
	KOLLET_CHAOS_SEED=$(CHAOS_SEED) KOLLET_CHAOS_TIME=$(CHAOS_TIME) KOLLET_CHAOS_KILLS=$(CHAOS_KILLS) KOLLET_CHAOS_NODES=$(CHAOS_NODES) KOLLET_CHAOS_PART=$(CHAOS_PART) KOLLET_CHAOS_ONCE=$(CHAOS_ONCE) \
	KOLLET_CHAOS_PROGRESS=$(abspath $(CHAOS_PROGRESS)) KOLLET_CHAOS_CONTINUE=$(CHAOS_CONTINUE) \
		test/make/gotest.sh -count=1 -v -timeout 0 -parallel $(CHAOS_NODES) -run '$(CHAOS_TESTS)' ./test/faults

fuzz: ## every fuzz target for FUZZ_TIME (30s)
	test/make/fuzz.sh $(FUZZ_TIME)

corpus: ## commit what make fuzz found and reaches more code
	test/make/fuzz.sh keep

bench: build images ## measure gaps BENCH_ROUNDS (30) times, and more, into build/bench
	@test/make/deps.sh docker-compose dumb-init podman
	go test -run '^$$' -bench . -timeout 60m $$(grep -rl '^func Benchmark' --include=*_test.go agent cmd configs containers | xargs -n 1 dirname | sort -u | sed 's|^|./|')
	$(measure) 'Gap|Timeline|NothingToDo|Size' -benchtime $(BENCH_ROUNDS)x
	$(measure) 'Whole|Memory' -benchtime 5x
	$(measure) 'Scale' -benchtime 1x
	$(measure) 'Real' -benchtime 3x
	$(measure) 'KollaStart' -benchtime 15x
	go run $(BENCHSTAT) -table engine -row .name -col /way build/bench/gap-*.txt | tee build/bench/gap.benchstat
	go run $(BENCHSTAT) -table engine -row /service -col /way build/bench/real-*.txt | tee build/bench/real.benchstat

bench-cloud: build guest images controller-image ## measure in a cloud how long nova-compute and placement are away, into build/bench; an hour
	$(measure) 'Cloud' -benchtime 3x
	go run $(BENCHSTAT) -table engine -row /what -col /way build/bench/cloud-*.txt | tee build/bench/cloud.benchstat

bench-fleet: deps build ## measure fleets of 10, 50 and 100 nodes on this machine, into build/bench/fleet.txt
	go test -tags scale -run '^TestScale$$' -v -count=1 -timeout 120m ./test/fleet

bench-network: node-image images ## measure in a virtual machine what packets notice while OVN's services are replaced, into build/bench/network.txt; an hour
	go test -run '^$$' -bench Network -benchtime 1x -timeout 120m -v ./test/vm

recordings: build ## record every state in which this version can be killed, into test/recordings/VERSION
	KOLLET_RECORD=$(CURDIR)/test/recordings/$(VERSION) go test -run '^TestRecord$$' -v -count=1 -timeout 20m ./test/e2e

man: ## generate the manual in docs
	go generate ./cmd/kollet ./cmd/kollet/reference

clean: ## remove what was built
	@[ ! -e /var/lib/kollet-up/made ] || { echo "the node of make up uses bin and build: run make down first" >&2; exit 1; }
	@[ ! -e /var/lib/kollet-cloud/made ] || { echo "the control plane of make cloud uses build: run make cloud-down first" >&2; exit 1; }
	rm -rf bin build agent/gate/start/kollet-start
