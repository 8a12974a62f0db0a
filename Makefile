# Everything that a developer or a newcomer does with this tree. On Debian 12,
# as root, nothing but make is needed beforehand: `make up` shows kollet at
# work on this machine, `make test` runs every test.

# Go goes here if the machine has none that is new enough.
GOROOT_OWN := /usr/local/lib/kollet-go
export PATH := $(GOROOT_OWN)/bin:$(PATH)
# The Go that was chosen is the one that is used.
export GOTOOLCHAIN := local
unexport GOROOT

# Where all but programs is built; tests look here.
export KOLLET_BUILD := $(CURDIR)/build

VERSION = $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
STATIC  = CGO_ENABLED=0 go build -trimpath -buildvcs=false
LDFLAGS = -s -w -X main.version=$(VERSION)

# Images that are built for tests and for make up, in two versions that differ
# by their label.
IMAGES   := nova-libvirt nova-compute neutron-linuxbridge-agent \
            neutron-openvswitch-agent openvswitch-db-server openvswitch-vswitchd
VERSIONS := 26.2.2 26.2.2-1

STATICCHECK   := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
BENCHSTAT     := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

TEST_FLAGS ?= -race
FUZZ_TIME  ?= 30s
BENCH_ROUNDS ?= 30

phase = test/make/phase.sh
parts = go list ./... | grep -vE '/test/(e2e|fleet|vm)$$'

measure = go test -run '^$$' -timeout 120m ./test/bench -bench

.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help up down test test-podman unit e2e build deps vet lint guest images node-image first-boot test-vm fuzz bench bench-fleet man clean

help: ## show this
	@echo "targets:"
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

up: ## set up a compute node on this machine, boot a guest, upgrade libvirt under it
	@$(MAKE) --no-print-directory deps build guest images
	@test/up/up.sh

down: ## take away what make up made
	@[ -x bin/kollet ] || $(MAKE) --no-print-directory build
	@test/up/down.sh

test: ## set up what is missing, then run every check and test
	@$(phase) "packages and Go" $(MAKE) --no-print-directory deps
	@$(phase) build $(MAKE) --no-print-directory build
	@$(phase) checks $(MAKE) --no-print-directory vet
	@$(phase) guest $(MAKE) --no-print-directory guest
	@$(phase) "tests of the parts" $(MAKE) --no-print-directory unit
	@$(phase) images $(MAKE) --no-print-directory images
	@$(phase) "tests of the whole" $(MAKE) --no-print-directory e2e
	@$(phase) "node image" $(MAKE) --no-print-directory node-image
	@$(phase) "first boot" $(MAKE) --no-print-directory first-boot

unit: build guest ## the tests of the parts
	test/make/gotest.sh $(TEST_FLAGS) -timeout 20m $$($(parts))

e2e: build guest images ## the tests of the whole
	test/make/gotest.sh -timeout 60m ./test/e2e/... ./test/fleet

test-podman: ## what Podman, which is not supported, passes of the engines' tests; five minutes
	@test/make/deps.sh podman
	@go test -count=1 -tags podman -run TestPodman -timeout 30m -v ./containers/docker | grep -E '^ *(--- |[a-z]+\.go:)'

build: ## static programs in bin/
	$(STATIC) -ldflags "-s -w" -o bin/kollet-start ./cmd/kollet-start
	@cmp -s bin/kollet-start agent/gate/start/kollet-start || cp bin/kollet-start agent/gate/start/kollet-start
	$(STATIC) -ldflags "$(LDFLAGS)" -o bin/kollet ./cmd/kollet
	$(STATIC) -ldflags "$(LDFLAGS)" -tags faults -o bin/kollet-faults ./cmd/kollet
	$(STATIC) -ldflags "-s -w" -o bin/ ./test/cmd/...

deps: ## install missing Debian packages, and Go if there is none
	@test/make/deps.sh
	@test/make/toolchain.sh $(GOROOT_OWN)

vet: ## gofmt, go vet, staticcheck, shellcheck, package hosts, ansible-lint
	@echo "gofmt -s"
	@! gofmt -l -s agent cmd configs containers test | grep .
	go vet ./...
	go vet -tags faults ./agent/... ./cmd/...
	go vet -tags scale ./test/fleet
	go run $(STATICCHECK) ./...
	@echo shellcheck
	@test/make/scripts.sh
	@echo "package hosts"
	@test/make/hosts.sh
	@playbooks/tests/check.sh

lint: vet ## the linters of .golangci.yml too; some minutes when run for the first time
	go run $(GOLANGCI_LINT) run ./...

guest: build/guest/.done ## kernel and initramfs of the tests' guests
build/guest/.done: test/guest/build.sh test/guest/init
	test/guest/build.sh build/guest || { apt-get -qq update && test/guest/build.sh build/guest; }
	@touch $@

images: ## the node's images, in build/registry
	@test/make/images.sh "$(IMAGES)" "$(VERSIONS)"

node-image: ## a Debian that is a node: disk, kernel, ramdisk and root file system, in build/node
	@test/make/deps.sh fdisk mtools e2fsprogs
	@$(MAKE) --no-print-directory deps build
	@containers/node-image/build.sh build/node

first-boot: node-image ## one first boot of a virtual machine, and its second; the short part of test-vm
	test/make/gotest.sh -v -timeout 60m -run 'TestFirstBoot/nocloud' ./test/vm

test-vm: node-image guest images ## nodes as virtual machines: first boots, a guest, power losses; half an hour
	@$(phase) "virtual machines" test/make/gotest.sh -count=1 -v -timeout 3h ./test/vm

fuzz: ## every fuzz target for FUZZ_TIME (30s)
	test/make/fuzz.sh $(FUZZ_TIME)

bench: build images ## measure gaps BENCH_ROUNDS (30) times, the rest less often, into build/bench
	@test/make/deps.sh docker-compose podman
	go test -run '^$$' -bench . -timeout 60m $$(grep -rl '^func Benchmark' --include=*_test.go agent cmd configs containers | xargs -n 1 dirname | sort -u | sed 's|^|./|')
	$(measure) 'Gap|Timeline|NothingToDo|Size' -benchtime $(BENCH_ROUNDS)x
	$(measure) 'Whole|Memory' -benchtime 5x
	$(measure) 'Scale' -benchtime 1x
	$(measure) 'Real' -benchtime 3x
	go run $(BENCHSTAT) -table engine -row .name -col /way build/bench/gap-*.txt | tee build/bench/gap.benchstat
	go run $(BENCHSTAT) -table engine -row /service -col /way build/bench/real-*.txt | tee build/bench/real.benchstat

bench-fleet: deps build ## measure fleets of 10, 50 and 100 nodes on this machine, into build/bench/fleet.txt
	go test -tags scale -run '^TestScale$$' -v -count=1 -timeout 120m ./test/fleet

man: ## make the manual in docs anew
	go generate ./cmd/kollet

clean: ## remove what was built
	@[ ! -e /var/lib/kollet-up/made ] || { echo "what make up runs needs bin and build: make down first" >&2; exit 1; }
	rm -rf bin build agent/gate/start/kollet-start
