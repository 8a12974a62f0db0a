package bench

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/tiny/image"
)

// Ways in which the container of an image of Kolla starts its service.
const (
	ownEntrypoint = "entrypoint of its own"
	kollaStart    = "dumb-init, kolla_start"
)

// kollaPrograms are stand-ins for the programs that Kolla's images run before the service, where
// they find that everything is done. Like Kolla's, they are a Python program and scripts of bash
// (kolla: docker/base/start.sh, set_configs.py).
var kollaPrograms = map[string]string{
	"kolla_start": `#!/bin/bash
set -o errexit
sudo -E kolla_set_configs
command=$(cat /run_command)
sudo kolla_install_projects
sudo kolla_copy_cacerts
. /usr/local/bin/kolla_extend_start
exec $command
`,
	"kolla_set_configs": `#!/usr/bin/python3
import argparse, glob, grp, json, logging, os, pwd, re, shutil, stat, sys
if os.environ["KOLLA_CONFIG_STRATEGY"] != "COPY_ONCE" or not os.path.exists("/configured"):
    sys.exit("the container is not configured")
`,
	"kolla_install_projects": "#!/bin/bash\n[[ ! -d /dev-mode ]]\n",
	"kolla_copy_cacerts":     "#!/bin/bash\n[[ ! -d /var/lib/kolla/share/ca-certificates ]]\n",
	"kolla_extend_start":     "#!/bin/bash\n",
}

// BenchmarkKollaStart measures what Kolla's start costs an upgrade: how long a service is away
// that kolla_start starts, and one whose entrypoint is the service. Both have the same image, of a
// real service's programs.
func BenchmarkKollaStart(b *testing.B) {
	registry := kollaRegistry(b)
	onBoth(b, func(b *testing.B, on engine) { kollaStartOn(b, on, registry) })
}

func kollaStartOn(b *testing.B, on engine, registry *machine.Registry) {
	n := &kollaNode{testNode: newNode(b, on), image: imageOf(registry, oldTag), round: map[string]int{}}
	n.configure()
	n.change(string(journal.Committed), "bootstrap")
	ways := []string{ownEntrypoint, kollaStart}
	all, order := series{}, []string{}
	for _, way := range ways {
		order = append(order, "KollaStart/way="+way)
	}
	before := load()
	for b.Loop() {
		for _, way := range ways {
			awaitQuiet(b)
			h := listen(b, addressOf(way))
			n.replace(way)
			all["KollaStart/way="+way] = append(all["KollaStart/way="+way], ms(h.gap(b)))
		}
	}
	b.ReportMetric(0, "ns/op")
	var t strings.Builder
	fmt.Fprintf(&t, "| start | times its own | median ms | min ms | max ms |\n|---|---|---|---|---|\n")
	base := spreadOf(all[order[0]]).Median
	for i, way := range ways {
		g := spreadOf(all[order[i]])
		fmt.Fprintf(&t, "| %s | %.1f | %.1f | %.1f | %.1f |\n", way, g.Median/base, g.Median, g.Min, g.Max)
	}
	fmt.Fprintf(&t, "\n%s; load %.1f before, %.1f after; %d rounds.\n", on.name, before, load(), len(all[order[0]]))
	keep(b, "kolla-start-"+on.name+".md", []byte(t.String()))
	keepSeries(b, "kolla-start-"+on.name+".txt", here(on.name), order, all)
	b.Logf("\n%s", t.String())
}

// kollaNode has one service for each way.
type kollaNode struct {
	*testNode
	image string
	round map[string]int // by way: how often its service was replaced
}

// replace gives the service of a way another environment.
func (n *kollaNode) replace(way string) {
	n.round[way]++
	n.configure()
	n.change(string(journal.Committed), "upgrade")
}

func (n *kollaNode) configure() {
	service := func(name, way, entrypoint, command string) string {
		return fmt.Sprintf(`  %s:
    image: %s
    entrypoint: [%s]
    command: [%s]
    environment: {ROUND: "%d"}
    pid: host
    healthcheck: [{tcp: %q, start_period: 100s, stable: 200ms, interval: 50ms}]
`, name, n.image, entrypoint, command, n.round[way], addressOf(way))
	}
	const program = "/usr/local/bin/" + benched
	n.write(node.DefaultNodeFile, fmt.Sprintf("profile: none\nengine: %s\nkeep_generations: 1\nservices:\n", n.on.name)+
		service("own", ownEntrypoint, program, "serve, "+addressOf(ownEntrypoint))+
		service("kolla", kollaStart, "dumb-init, --single-child, --, kolla_start", program+", serve, "+addressOf(kollaStart)))
}

// kollaRegistry has an image of Kolla's kind, with the tiny service in it.
func kollaRegistry(b *testing.B) *machine.Registry {
	b.Helper()
	built, err := filepath.Abs(filepath.Join(buildDir(), "registry"))
	check(b, err)
	from, err := name.NewTag(machine.NewRegistry(b, machine.RegistryDir(built)).Addr+"/kolla/nova-compute:"+oldVersion, name.Insecure)
	check(b, err)
	base, err := remote.Image(from)
	check(b, err)
	init, err := exec.LookPath("dumb-init")
	check(b, err)
	content, err := os.ReadFile(init)
	check(b, err)
	files := map[string]string{"dumb-init": string(content), benched: string(image.Program(b))}
	maps.Copy(files, kollaPrograms)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for path, content := range files {
		check(b, w.WriteHeader(&tar.Header{Name: "usr/local/bin/" + path, Mode: 0o755, Size: int64(len(content))}))
		_, err := io.WriteString(w, content)
		check(b, err)
	}
	const sudoers = "ALL ALL=(root) NOPASSWD:SETENV: ALL\n"
	check(b, w.WriteHeader(&tar.Header{Name: "etc/sudoers.d/kolla", Mode: 0o440, Size: int64(len(sudoers))}))
	_, err = io.WriteString(w, sudoers)
	check(b, err)
	check(b, w.Close())
	added, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	check(b, err)
	made, err := mutate.AppendLayers(base, added)
	check(b, err)
	r := machine.NewRegistry(b)
	to, err := name.NewTag(imageOf(r, oldTag), name.Insecure)
	check(b, err)
	check(b, remote.Write(to, made))
	return r
}
