package upgrade

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/containers"
)

// validating is an engine in whose containers oslo-config-validator answers.
type validating struct {
	answering
	says   string
	status int
	err    error
	ran    *[]string
}

func (v validating) Exec(_ context.Context, id string, e containers.Exec) (int, error) {
	*v.ran = append(*v.ran, id+" as "+e.User+": "+strings.Join(e.Argv[4:], " "))
	_, _ = io.WriteString(e.Stderr, v.says)
	return v.status, v.err
}

// The options that a staged image does not know are named with where they come from. An image
// and a file that are as before are not checked again.
func TestWarnOfOptions(t *testing.T) {
	const unknown = "WARNING:stevedore.named:Could not load os_vif\nERROR:root:libvirt/cpu_mod is not part of the sample config\nERROR:root:DEFAULT/my_ip\x1b is not part of the sample config\n"
	const ran = "nova-compute as nova: oslo-config-validator --input-file /etc/nova/nova.conf --namespace nova.conf --namespace oslo.log"
	file := func(sum string) []generation.File {
		return []generation.File{{Dest: "/etc/other", SHA256: "9"}, {Dest: "/etc/nova/nova.conf", SHA256: sum}}
	}
	for name, c := range map[string]struct {
		old, new validatedService
		says     string
		status   int
		err      error
		ran      string
		want     []string
	}{
		"all known":  {old: validatedService{"a", "1"}, new: validatedService{"a", "2"}, ran: ran},
		"unknown":    {old: validatedService{"a", "1"}, new: validatedService{"a", "2"}, says: unknown, status: 1, ran: ran, want: []string{"warning: nova.conf: unknown to the new image: [libvirt] cpu_mod (/etc/kollet/config/nova.conf:3); [DEFAULT] my_ip�; correct the name, unless it is an option of a plugin"}},
		"new image":  {old: validatedService{"a", "1"}, new: validatedService{"b", "1"}, ran: ran},
		"as before":  {old: validatedService{"a", "1"}, new: validatedService{"a", "1"}, says: unknown, status: 1},
		"it fails":   {new: validatedService{"a", "1"}, says: "Traceback\nImportError: no\n", status: 1, ran: ran, want: []string{"warning: nova.conf: its options were not checked: oslo-config-validator: exit status 1: ImportError: no"}},
		"no program": {new: validatedService{"a", "1"}, err: errors.New("no sh"), ran: ran, want: []string{"warning: nova.conf: its options were not checked: no sh"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newCutoverNode(t)
			var got []string
			n.node.Engine = validating{says: c.says, status: c.status, err: c.err, ran: &got}
			service := func(v validatedService) generation.Service {
				return generation.Service{Name: "nova-compute", User: "nova", Origin: 2, Image: generation.Image{ID: v.image}, Files: file(v.sum)}
			}
			tx := newProblemsTransaction(t, n, service(c.new))
			tx.from.Services[0].Image.ID, tx.from.Services[0].Files = c.old.image, file(c.old.sum)
			tx.target.OsloFiles = []target.OsloFile{{
				Service: "nova-compute", Path: "/etc/nova/nova.conf", Namespaces: []string{"nova.conf", "oslo.log"},
				Explain: func() (configs.Explanation, error) {
					return configs.Explanation{Settings: []configs.Setting{{Section: "libvirt", Key: "cpu_mod", Origin: configs.Origin{File: "/etc/kollet/config/nova.conf", Line: 3}}}}, nil
				},
			}, {Service: "other", Path: "/etc/other"}}
			if err := tx.warnOfOptions(t.Context()); err != nil {
				t.Fatal(err)
			}
			if strings.Join(got, "\n") != c.ran {
				t.Errorf("ran %q, want %q", got, c.ran)
			}
			if !slices.Equal(n.notes, c.want) {
				t.Errorf("said %q, want %q", n.notes, c.want)
			}
		})
	}
}

// validatedService is a service's image, and the digest of its nova.conf.
type validatedService struct{ image, sum string }
