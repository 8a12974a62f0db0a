package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kollet/kollet"

// allowed lists which of kollet's packages each package may import. Every package has its
// own entry; only test code shares one ("x/..." is x and everything below it).
// Dependencies point one way: from cmd to agent to containers and configs, which do not
// import each other. agent/host, which reads the machine, is below all of them.
var allowed = map[string][]string{
	"cmd/kollet": {"agent", "agent/adopt", "agent/doctor", "agent/durable", "agent/firstboot", "agent/format", "agent/generation", "agent/host", "agent/journal",
		"agent/node", "agent/nodefile", "agent/seed", "agent/target", "agent/upgrade", "agent/userdata", "cmd/kollet/reference", "cmd/kollet/view",
		"configs/report", "containers", "containers/containerd", "containers/deadline", "containers/docker", "containers/podman"},
	"cmd/kollet/view":      {"agent", "agent/adopt", "agent/doctor", "agent/journal", "agent/node", "agent/nodefile", "agent/plan", "agent/printable", "agent/seed", "agent/target", "agent/upgrade", "agent/userdata"},
	"cmd/kollet/reference": {"agent/nodefile", "configs"},
	"cmd/kollet-start":     {"agent/gate", "configs/pyyaml"}, // keeps the program small

	"agent": {"agent/adopt", "agent/doctor", "agent/fetch", "agent/firstboot", "agent/fit", "agent/generation", "agent/guest", "agent/health", "agent/host", "agent/journal",
		"agent/node", "agent/nodefile", "agent/plan", "agent/quiesce", "agent/target", "agent/upgrade", "containers", "containers/failure"},
	"agent/upgrade": {"agent/doctor", "agent/durable", "agent/fetch", "agent/fit", "agent/format", "agent/gate", "agent/gate/start", "agent/generation", "agent/guest", "agent/health", "agent/host",
		"agent/journal", "agent/node", "agent/nodefile", "agent/openstack", "agent/plan", "agent/printable", "agent/quiesce", "agent/target", "configs/ini", "containers"},
	"agent/doctor": {"agent/adopt", "agent/generation", "agent/health", "agent/host", "agent/node", "agent/nodefile", "agent/openstack", "agent/quiesce", "agent/target", "containers"},
	"agent/adopt":  {"agent/durable", "agent/gate", "agent/generation", "agent/health", "agent/node", "agent/nodefile", "agent/printable", "agent/wary", "configs", "configs/pyyaml", "configs/report", "containers"},
	"agent/fetch":  {"agent/archive", "agent/generation", "agent/node", "agent/nodefile", "agent/target", "containers"},
	"agent/plan":   {"agent/generation", "agent/node", "agent/printable", "agent/target", "agent/wary", "configs/redact", "containers"},
	"agent/target": {"agent/generation", "agent/journal", "agent/node", "agent/nodefile", "agent/openstack", "agent/wary", "configs", "configs/redact", "configs/report", "containers"},
	"agent/node": {"agent/durable", "agent/format", "agent/gate", "agent/gate/start", "agent/generation", "agent/guest", "agent/host", "agent/journal", "agent/nodefile", "agent/wary",
		"configs", "configs/kolla", "containers"},

	"agent/archive":    {"agent/wary"},
	"agent/durable":    {},
	"agent/fit":        {},
	"agent/firstboot":  {"agent/durable", "agent/format", "agent/wary"},
	"agent/format":     {"agent/printable"},
	"agent/gate":       {"agent/printable", "agent/wary"},
	"agent/gate/start": {"agent/durable"},
	"agent/generation": {"agent/durable", "agent/format", "agent/nodefile", "agent/wary", "containers"},
	"agent/guest":      {"agent/gate", "agent/host"},
	"agent/health":     {"agent/host", "agent/nodefile", "agent/printable", "containers"},
	"agent/host":       {"agent/wary"},
	"agent/journal":    {"agent/durable", "agent/format", "agent/wary"},
	"agent/nodefile":   {"agent/gate", "agent/wary", "configs/kolla", "configs/report", "containers"},
	"agent/openstack":  {"agent/wary"},
	"agent/printable":  {},
	"agent/quiesce":    {"agent/durable", "agent/format", "agent/openstack", "agent/wary"},
	"agent/seed":       {"agent/durable", "agent/nodefile", "agent/userdata", "configs/report"},
	"agent/wary":       {},
	"agent/userdata":   {"agent/node", "agent/nodefile", "configs", "configs/report"},

	"configs":        {"configs/ini", "configs/redact", "configs/report"},
	"configs/ini":    {},
	"configs/kolla":  {},
	"configs/pyyaml": {},
	"configs/redact": {},
	"configs/report": {},

	"containers":                    {},
	"containers/conformance":        {"agent/host", "containers"},
	"containers/containerd":         {"agent/host", "containers", "containers/containerd/logfile", "containers/failure", "containers/login"},
	"containers/containerd/logfile": {},
	"containers/deadline":           {"containers"},
	"containers/docker":             {"agent/host", "containers", "containers/failure", "containers/login"},
	"containers/failure":            {"containers"},
	"containers/images":             {},
	"containers/podman":             {"agent/host", "containers", "containers/docker", "containers/failure"},
	"containers/login":              {},

	"test/...":          {"..."},
	"test/machine/...":  {"test/machine/..."}, // tests of every package use it
	"test/architecture": {},
}

// guarded lists which packages may import a library, or a package of the standard library,
// that is restricted to them.
var guarded = map[string][]string{
	"github.com/docker/docker/...":         {"containers/docker"}, // to limit the work of moving to its successor
	"github.com/docker/cli/...":            {"containers/login"},
	"github.com/containerd/containerd/...": {"containers/containerd"},
	"gopkg.in/yaml.v3":                     {"agent/nodefile", "agent/userdata", "cmd/kollet/view/...", "cmd/kollet/reference", "configs/pyyaml"}, // no longer developed
	"github.com/hashicorp/go-multierror":   {"configs/report"},
	"github.com/agnivade/levenshtein":      {"configs/report"},
	"github.com/moby/sys/mountinfo":        {"agent/host", "test/machine"},
	"github.com/moby/sys/capability":       {"agent/host"},
	"github.com/diskfs/...":                {"agent/seed"},
	"github.com/gophercloud/...":           {"agent/openstack", "test/..."},
	"github.com/spf13/...":                 {"cmd/kollet/..."},
	"testing":                              {"test/...", "containers/conformance"},
}

// listed is a package as `go list -json` prints it, as far as this test needs it.
type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	readTree(t)
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", module+"/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// readTree reads every directory with packages. The go command keeps the result
// of a test until a file that the test itself opened changes, and does not know
// what go list reads.
func readTree(t *testing.T) {
	t.Helper()
	for _, top := range []string{"agent", "cmd", "configs", "containers", "test"} {
		if err := filepath.WalkDir("../../"+top, func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
			t.Fatal(err)
		}
	}
}

func TestImports(t *testing.T) {
	all := packages(t)
	if len(all) < 10 {
		t.Fatalf("found only %d packages", len(all))
	}
	for _, p := range all {
		for _, problem := range check(p) {
			t.Error(problem)
		}
	}
}

// Every package has an entry, every entry has a package, and every permission is
// used.
func TestEntriesMatch(t *testing.T) {
	all := packages(t)
	for _, p := range all {
		name := own(p.ImportPath)
		if _, ok := allowed[name]; !ok && !matches("test/...", name) {
			t.Errorf("%s has no entry of its own", name)
		}
		for _, pattern := range allowed[name] {
			used := slices.ContainsFunc(p.Imports, func(path string) bool {
				return strings.HasPrefix(path, module) && matches(pattern, own(path))
			})
			if !used && !strings.HasSuffix(pattern, "...") {
				t.Errorf("allowed[%q]: %s is not imported; remove it", name, pattern)
			}
		}
	}
	exists := func(pattern string) bool {
		return slices.ContainsFunc(all, func(p listed) bool { return matches(pattern, own(p.ImportPath)) })
	}
	for name, imports := range allowed {
		for _, pattern := range append([]string{name}, imports...) {
			if !exists(pattern) {
				t.Errorf("allowed[%q]: there is no package %s", name, pattern)
			}
		}
	}
	for library, importers := range guarded {
		for _, pattern := range importers {
			if !exists(pattern) {
				t.Errorf("guarded[%q]: there is no package %s", library, pattern)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		p    listed
		want string
	}{
		{"downwards", listed{ImportPath: "agent/target", Imports: []string{"m/configs", "m/containers", "os"}}, ""},
		{"upwards", listed{ImportPath: "containers/docker", Imports: []string{"m/agent"}}, "containers/docker must not import agent"},
		{"sideways", listed{ImportPath: "configs", Imports: []string{"m/containers"}}, "configs must not import containers"},
		{"an engine by name", listed{ImportPath: "agent/health", Imports: []string{"m/containers/docker"}}, "agent/health must not import containers/docker"},
		{"test code in the product", listed{ImportPath: "agent", Imports: []string{"m/test/machine"}}, "agent must not import test/machine"},
		{"test code in a test", listed{ImportPath: "agent", XTestImports: []string{"m/test/machine", "testing"}}, ""},
		{"further down in a test", listed{ImportPath: "agent/upgrade", TestImports: []string{"m/configs/redact"}}, ""},
		{"further down", listed{ImportPath: "agent/upgrade", Imports: []string{"m/configs/redact"}}, "agent/upgrade must not import configs/redact"},
		{"upwards in a test", listed{ImportPath: "configs", TestImports: []string{"m/agent"}}, "configs must not import agent"},
		{"a guarded library", listed{ImportPath: "agent", Imports: []string{"github.com/docker/docker/client"}}, "agent must not import github.com/docker/docker/client"},
		{"a prefix of a guarded library", listed{ImportPath: "agent", Imports: []string{"github.com/docker/docker-thing"}}, ""},
		{"testing in the product", listed{ImportPath: "agent", Imports: []string{"testing"}}, "agent must not import testing"},
		{"a new package", listed{ImportPath: "util"}, "util has no entry"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.p.ImportPath = module + "/" + c.p.ImportPath
			for _, list := range [][]string{c.p.Imports, c.p.TestImports, c.p.XTestImports} {
				for i := range list {
					if path, ours := strings.CutPrefix(list[i], "m/"); ours {
						list[i] = module + "/" + path
					}
				}
			}
			got := strings.Join(check(c.p), "\n")
			if (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// check returns the problems with a package's imports.
func check(p listed) (problems []string) {
	name := own(p.ImportPath)
	may, found := entry(name)
	if !found {
		return []string{fmt.Sprintf("%s has no entry in test/architecture; add one", name)}
	}
	bad := func(path string, may []string) {
		problems = append(problems, fmt.Sprintf("%s must not import %s; it may import %v", name, path, may))
	}
	for _, path := range p.Imports {
		if strings.HasPrefix(path, module) {
			if !slices.ContainsFunc(may, func(pattern string) bool { return matches(pattern, own(path)) }) {
				bad(path[len(module)+1:], may)
			}
			continue
		}
		for library, in := range guarded {
			if matches(library, path) && !slices.ContainsFunc(in, func(pattern string) bool { return matches(pattern, name) }) {
				problems = append(problems, fmt.Sprintf("%s must not import %s; only %v may import it", name, path, in))
			}
		}
	}
	// Tests may also import everything below their package, test code, and engines.
	may = append(below(name), name, "test/...", "containers/...")
	for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
		if strings.HasPrefix(path, module) && !slices.ContainsFunc(may, func(pattern string) bool { return matches(pattern, own(path)) }) {
			bad(path[len(module)+1:], may)
		}
	}
	return problems
}

// below returns everything that a package may import, directly or indirectly.
func below(name string) []string {
	found, _ := entry(name)
	found = slices.Clone(found)
	for i := 0; i < len(found); i++ {
		next, _ := entry(found[i])
		for _, pattern := range next {
			if !slices.Contains(found, pattern) {
				found = append(found, pattern)
			}
		}
	}
	return found
}

// entry returns the most specific entry for a package.
func entry(name string) (may []string, found bool) {
	longest := -1
	for pattern, m := range allowed {
		if l := len(strings.TrimSuffix(pattern, "/...")); matches(pattern, name) && (l > longest || l == longest && pattern == name) {
			may, found, longest = m, true, l
		}
	}
	return may, found
}

// own returns a package's path within this module.
func own(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, module), "/") }

// matches reports whether a pattern matches a path.
func matches(pattern, path string) bool {
	if pattern == "..." {
		return true
	}
	base, below := strings.CutSuffix(pattern, "/...")
	return path == base || below && strings.HasPrefix(path, base+"/")
}
