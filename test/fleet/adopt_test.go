package fleet

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/test/site"
	"github.com/kollet/kollet/test/tiny/image"
)

// TestAdopt takes two nodes over from kolla-ansible, one after the other, and gives them back.
func TestAdopt(t *testing.T) {
	s := site.New(t)
	for number := 1; number <= 2; number++ {
		s.NewNode(number)
	}
	image.Kolla(t, "v1").Push(t, s.Registry.Addr, "test/kolla")
	c := newControl(s, 2)
	c.inventory()
	c.version("v1")
	c.Write("inventory/group_vars/kollet/adopt.yml", "kollet_adopt_exclude: [nova_ssh]\nkollet_adopt_keep: kept\n")
	hooks := c.hooks()
	var ids []string
	for _, n := range c.nodes {
		n.Await()
		ids = append(ids, n.kolla("nova_compute", "7001"))
		n.kolla("nova_ssh", "7002")
	}
	adopt := func(args ...string) run {
		return c.play("adopt", slices.Concat(waves, hooks, []string{"-e", "kollet_window=adopt"}, args)...)
	}

	// One node that cannot be taken over keeps all from being taken over.
	c.nodes[1].Run("docker stop nova_compute")
	adopt().exits(2).prints("nova_compute: it does not run")
	c.kollaRuns(ids[:1])
	c.nodes[1].Run("docker start nova_compute")
	adopt("--check", "--diff").exits(0).prints("node1 would change", "node2 would change", "profile: none")
	c.kollaRuns(ids)
	if log := c.hooked(); log != "" {
		t.Fatalf("hooks ran:\n%s", log)
	}

	adopt().exits(0).prints("node1 committed 0 1", "node2 committed 0 1", "2 committed")
	for i, n := range c.nodes {
		if status := n.status(); !status.Healthy || len(status.Services) != 1 || status.Services[0].Generation != 1 {
			t.Fatalf("%s: %+v", n.Name, status)
		}
		n.answers("kollet exec nova-compute --", "7001")
		n.answers("docker exec nova_ssh", "7002") // which stays
		if state := n.state(ids[i]); state != "exited" {
			t.Errorf("%s: kolla-ansible's container is %s", n.Name, state)
		}
		kept, err := os.ReadFile(c.Path("kept/" + n.Name + ".yaml"))
		check(t, err)
		if text := n.Run("cat /etc/kollet/node.yaml"); text != string(kept) {
			t.Errorf("%s has the node file\n%s\nand a copy is\n%s", n.Name, text, kept)
		}
	}
	if log := c.hooked(); log != "drain node1\ngate node1\nundrain node1\ndrain node2\ngate node2\nundrain node2\n" {
		t.Fatalf("hooks:\n%s", log)
	}
	adopt("-e", "kollet_gate=").exits(0).prints("2 nothing to do").unchanged()
	if log := c.hooked(); log != "" {
		t.Fatalf("nodes without a change were drained:\n%s", log)
	}

	c.play("rollback", "-e", "kollet_rollback=adoption").exits(0).prints("2 committed")
	c.kollaRuns(ids)
	c.play("upgrade", "-e", "kollet_window=after").exits(2).prints("kolla-ansible runs this node")
	c.kollaRuns(ids)
}

// kolla creates and starts a container as kolla-ansible does, and returns its id.
func (n testNode) kolla(name, port string) string {
	n.Site.T.Helper()
	service := strings.ReplaceAll(name, "_", "-")
	dir := "/etc/kollet/kolla/" + service // of the node alone, as /etc/kolla is not
	n.Run(fmt.Sprintf(`mkdir -p %[1]s && echo kolla >%[1]s/tiny.conf && cat >%[1]s/config.json <<-'END'
		{
		  "command": "/bin/tiny serve 127.0.0.1:%[2]s /etc/tiny.conf",
		  "config_files": [{"source": "/var/lib/kolla/config_files/tiny.conf", "dest": "/etc/tiny.conf", "owner": "nova", "perm": "0600"}],
		  "permissions": [{"path": "/var/lib/nova", "owner": "nova:nova", "recurse": true}]
		}
	END`, dir, port))
	id := n.Run(fmt.Sprintf(`docker create --name %[1]s --network host --restart no \
		--env KOLLA_CONFIG_STRATEGY=COPY_ALWAYS --env KOLLA_SERVICE_NAME=%[2]s --volume %[3]s/:/var/lib/kolla/config_files/:ro --volume kolla_logs:/var/log/kolla/ --volume %[2]s:/var/lib/nova/ \
		--health-cmd 'healthcheck_answer 127.0.0.1:%[4]s' --health-interval 30s --health-timeout 30s --health-retries 3 %[5]s/test/kolla:v1`,
		name, service, dir, port, site.RegistryAddr))
	n.Run("docker start " + name)
	return strings.TrimSpace(id)
}

func (n testNode) state(id string) string {
	n.Site.T.Helper()
	return strings.TrimSpace(n.Run("docker inspect --format '{{.State.Status}}' " + id))
}

// answers requires that the service of a container answers; enter begins a command in it.
func (n testNode) answers(enter, port string) {
	n.Site.T.Helper()
	if answer := strings.Fields(n.Run(enter + " /bin/tiny ask 127.0.0.1:" + port)); !slices.Contains(answer, "kolla") {
		n.Site.T.Errorf("%s: %s answers %q", n.Name, enter, answer)
	}
}

// kollaRuns requires that these containers of kolla-ansible run, one on each node, and serve.
func (c *control) kollaRuns(ids []string) {
	c.T.Helper()
	for i, id := range ids {
		if state := c.nodes[i].state(id); state != "running" {
			c.T.Errorf("%s: kolla-ansible's container is %s", c.nodes[i].Name, state)
		}
		c.nodes[i].answers("docker exec "+id, "7001")
	}
}
