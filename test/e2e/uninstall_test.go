package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/node"
)

// TestUninstall runs the commands of docs/operations.md that remove kollet's containers and
// images from an engine, and requires that nothing is left.
func TestUninstall(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	check(t, err)
	_, section, _ := strings.Cut(string(page), "## Uninstall\n")
	onDocker(t, func(t *testing.T, p *protocol) {
		for _, tag := range []string{"v1", "v2"} {
			pushTiny(t, p.registry, "test/tiny", tag)
		}
		n := p.node(t)
		n.Must(0, "bootstrap")
		p.configure(n, "v2", "two", "    volumes: [{source: data, target: /data}]\n")
		n.Must(0, "upgrade")
		tool := map[string]string{"docker": "docker", "containerd": "ctr", "podman": "podman"}[p.engine.Name]
		_, script, found := strings.Cut(section, "\n```\nids=$("+tool+" ")
		if !found {
			t.Fatalf("docs/operations.md has no commands for %s", p.engine.Name)
		}
		script, _, _ = strings.Cut("ids=$("+tool+" "+script, "\n```")
		// The test's engine has another address, namespace and state directory.
		address, query, _ := strings.Cut(p.engine.Address, "?namespace=")
		options := map[string]string{"docker": "-H " + address, "ctr": "--address " + address, "podman": "--url " + address}[tool]
		script = strings.NewReplacer("/var/lib/kollet", n.Path(node.StateDir), "--namespace kollet", "--namespace "+query, "remove kollet", "remove "+query).Replace(script)
		program, err := exec.LookPath(tool)
		check(t, err)
		bin := t.TempDir()
		check(t, os.WriteFile(filepath.Join(bin, tool), fmt.Appendf(nil, "#!/bin/sh\nexec %s %s \"$@\"\n", program, options), 0o755))
		cmd := exec.Command("sh", "-ec", script)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if all, err := n.Engine.List(context.Background(), nil); err != nil || len(all) > 0 {
			t.Errorf("containers are left: %+v, %v", all, err)
		}
		for _, tag := range []string{"v1", "v2"} {
			if image, err := n.Engine.Image(context.Background(), p.registry.Addr+"/test/tiny:"+tag); err == nil {
				t.Errorf("image %s is left", image.ID)
			}
		}
		for _, address := range []string{"127.0.0.1:7001", "127.0.0.1:7002"} {
			if c, err := net.Dial("tcp", address); err == nil {
				c.Close()
				t.Errorf("%s still answers", address)
			}
		}
	})
}
