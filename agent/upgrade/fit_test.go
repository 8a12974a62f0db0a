package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/configs/redact"
	"github.com/kollet/kollet/containers"
)

// programs is an engine with the containers of generations 1, which runs, and 2,
// which is staged. Its programs answer, or fail with what follows "!".
type programs struct {
	containers.Engine
	answers map[string]string // by generation and command; those of generation 0 count for both
	down    bool              // the container of generation 1 does not run
	asked   []string
}

func (p *programs) List(_ context.Context, labels map[string]string) ([]containers.Container, error) {
	state := containers.StateRunning
	if p.down && labels[node.LabelGeneration] == "1" {
		state = containers.StateExited
	}
	return []containers.Container{{ID: labels[node.LabelGeneration], State: state, PID: 30}}, nil
}

func (p *programs) Exec(_ context.Context, id string, e containers.Exec) (int, error) {
	command := strings.Join(e.Argv, " ")
	p.asked = append(p.asked, id+" "+command)
	answer, ok := p.answers[id+" "+command]
	if !ok {
		answer, ok = p.answers["0 "+command]
	}
	if !ok {
		return 0, errors.New("no such program")
	}
	if reason, failed := strings.CutPrefix(answer, "!"); failed {
		_, _ = io.WriteString(e.Stderr, reason)
		return 1, nil
	}
	_, _ = io.WriteString(e.Stdout, answer)
	return 0, nil
}

const (
	machines = "Supported machines are:\npc                   Standard PC (alias of pc-i440fx-7.2)\npc-i440fx-7.2        Standard PC (default)\n"
	cpus     = "Available CPUs:\nx86 qemu64                (alias configured by machine type)\n\nRecognized CPUID flags:\n  3dnow vmx\n"
	withVMX  = "-cpu\x00qemu64,vmx=on,hv-time=on"
)

func TestGuestsFit(t *testing.T) {
	unknown := "whether libvirt 9.0.0 can adopt guests is not known: "
	for name, c := range map[string]struct {
		guests  []string          // the arguments of their QEMU, after the machine type pc-i440fx-7.2
		answers map[string]string // differ from those of a libvirt 9.0 with QEMU 7.2
		down    bool
		change  func(from, to *generation.Service)
		want    string // the error
		warned  string
		asked   int // questions, if not 0; -1: none
	}{
		"the same":                          {guests: []string{withVMX, ""}, asked: 2 + 2*3},
		"no guests":                         {asked: -1},
		"newer libvirt":                     {guests: []string{""}, answers: map[string]string{"2 libvirtd --version": "libvirtd (libvirt) 11.3.0"}},
		"older libvirt":                     {guests: []string{"", ""}, answers: map[string]string{"2 libvirtd --version": "libvirtd (libvirt) 8.0.0"}, want: "libvirt 8.0.0 is older than 9.0.0, which runs now: it may fail to adopt guests, and list them as shut off, needed by guests a, b"},
		"libvirt does not answer":           {guests: []string{""}, answers: map[string]string{"2 libvirtd --version": "!libvirtd: error while loading shared libraries: libvirt.so.0\nmore"}, want: `"libvirtd --version" fails: exit status 1: libvirtd: error while loading shared libraries: libvirt.so.0, needed by guest a`},
		"libvirt answers in riddles":        {guests: []string{""}, answers: map[string]string{"2 libvirtd --version": "libvirtd"}, warned: `whether its libvirt can adopt guests is not known: "libvirtd --version" printed no version`},
		"the old libvirt does not run":      {guests: []string{""}, down: true, warned: unknown + "the service does not run, so the version that it has now cannot be asked"},
		"the old libvirt fails":             {guests: []string{""}, answers: map[string]string{"1 libvirtd --version": "!killed"}, warned: unknown + `the version that runs now cannot be asked: "libvirtd --version" fails: exit status 1: killed`},
		"the old libvirt has no version":    {guests: []string{""}, answers: map[string]string{"1 libvirtd --version": ""}, warned: unknown + "the version that runs now cannot be asked: it printed no version"},
		"a rollback to a record without it": {guests: []string{""}, change: func(_, to *generation.Service) { to.Guests.Version = nil }, asked: 2 + 2*3},
		"a service without it":              {guests: []string{""}, change: func(from, to *generation.Service) { from.Guests, to.Guests.Version = nil, nil }, asked: 2 * 3},
		"machine type gone":                 {guests: []string{""}, answers: map[string]string{"2 /usr/bin/qemu-system-x86_64 -machine help": "Supported machines are:\npc-i440fx-10.1 x\n", "2 /usr/bin/qemu-system-x86_64 --version": "QEMU emulator version 10.1.0\n"}, want: "/usr/bin/qemu-system-x86_64 10.1.0 has no machine type pc-i440fx-7.2, needed by guest a"},
		"CPU model gone":                    {guests: []string{"-cpu\x00Icelake-Client"}, want: "/usr/bin/qemu-system-x86_64 7.2.22 has no CPU model Icelake-Client, needed by guest a"},
		"CPU feature gone":                  {guests: []string{"", withVMX}, answers: map[string]string{"2 /usr/bin/qemu-system-x86_64 -cpu help": strings.Replace(cpus, " vmx", "", 1)}, want: "/usr/bin/qemu-system-x86_64 7.2.22 has no CPU feature vmx, needed by guest b"},
		"firmware gone":                     {guests: []string{"-drive\x00file=/usr/share/OVMF/CODE.fd,if=pflash", "-drive\x00file=/usr/share/OVMF/VARS.fd,if=pflash"}, want: "there is no firmware file /usr/share/OVMF/CODE.fd, needed by guest a"},
		"no QEMU":                           {guests: []string{""}, answers: map[string]string{"2 /usr/bin/qemu-system-x86_64 --version": "!no such file or directory"}, want: `"/usr/bin/qemu-system-x86_64 --version" fails: exit status 1: no such file or directory, needed by guest a`},
		"QEMU answers in riddles":           {guests: []string{""}, answers: map[string]string{"2 /usr/bin/qemu-system-x86_64 -machine help": "\n"}, warned: "whether /usr/bin/qemu-system-x86_64 7.2.22 offers what guest a needs is not known: its answers to -machine help and -cpu help were not understood"},
		"guests are not protected":          {guests: []string{""}, change: func(_, to *generation.Service) { to.Guests.Protect = new(bool) }, asked: -1},
		"the service is not replaced":       {guests: []string{""}, change: func(_, to *generation.Service) { to.Origin = 1 }, asked: -1},
	} {
		t.Run(name, func(t *testing.T) {
			n := newCutoverNode(t)
			for i, arguments := range c.guests {
				guest := string(rune('a' + i))
				n.guest(20+i, guest)
				n.write(fmt.Sprintf("proc/%d/cmdline", 20+i), "/usr/bin/qemu-system-x86_64\x00-name\x00guest="+guest+"\x00-machine\x00pc-i440fx-7.2,usb=off\x00"+arguments+"\x00-uuid\x00uuid-"+guest+"\x00")
			}
			n.write("proc/30/root/usr/share/OVMF/VARS.fd", "")
			n.write("proc/30/root/usr/bin/qemu-system-x86_64", "")
			engine := &programs{down: c.down, answers: map[string]string{
				"0 libvirtd --version": "libvirtd (libvirt) 9.0.0\n", "0 /usr/bin/qemu-system-x86_64 --version": "QEMU emulator version 7.2.22 (Debian 1:7.2)\n",
				"0 /usr/bin/qemu-system-x86_64 -machine help": machines, "0 /usr/bin/qemu-system-x86_64 -cpu help": cpus,
			}}
			maps.Copy(engine.answers, c.answers)
			n.node.Engine = engine
			tx := fitTransaction(t, n.node, c.change)
			err := tx.guestsFit(t.Context())
			want := ""
			if c.want != "" {
				want = "guests do not fit the new nova-libvirt: " + c.want + "; stop or migrate them, or use another image; `kollet upgrade --force` continues regardless"
			}
			if got := fmt.Sprint(err); err == nil && want != "" || err != nil && got != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if warned := warnings(t, n.node); c.warned == "" && warned != "" || c.warned != "" && warned != "nova-libvirt: "+c.warned {
				t.Errorf("warned %q\nwant   %q", warned, c.warned)
			}
			if c.asked != 0 && len(engine.asked) != max(0, c.asked) {
				t.Errorf("asked %q", engine.asked)
			}
			for _, question := range engine.asked {
				if !slices.ContainsFunc([]string{"libvirtd --version", " --version", " -machine help", " -cpu help"}, func(s string) bool { return strings.HasSuffix(question, s) }) {
					t.Errorf("ran %q", question)
				}
			}
		})
	}
}

// fitTransaction is one that replaces nova-libvirt in generation 2.
func fitTransaction(t *testing.T, n *node.Node, change func(from, to *generation.Service)) *transaction {
	t.Helper()
	j, err := journal.Create(n.Journals(), journal.Record{To: 2}, n.Host.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	service := func(number int) generation.Service {
		return generation.Service{Name: "nova-libvirt", Origin: number, Guests: &nodefile.Guests{List: []string{"virsh", "list"}, Version: []string{"libvirtd", "--version"}}}
	}
	from, to := service(1), service(2)
	if change != nil {
		change(&from, &to)
	}
	tx := newTransaction(n, j, generation.Generation{Number: 1, Services: []generation.Service{from}})
	t.Cleanup(tx.watch.stop)
	tx.to = generation.Generation{Number: 2, Services: []generation.Service{to}}
	tx.target = &target.Target{Redactor: redact.New(nil)}
	return tx
}

// warnings returns what the journal warns of.
func warnings(t *testing.T, n *node.Node) string {
	t.Helper()
	records, err := journal.Read(n.Journals(), 2)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range records {
		if r.Event == journal.Warning {
			all = append(all, r.Note)
		}
	}
	return strings.Join(all, "; ")
}

// Guests that came after the stage step are checked before guests are protected,
// and the others are not checked again. With --force the upgrade continues.
func TestGuestsFitAgain(t *testing.T) {
	n := newCutoverNode(t)
	n.guest(20, "a")
	engine := &programs{answers: map[string]string{"1 libvirtd --version": "9.0.0", "2 libvirtd --version": "8.0.0"}}
	for _, question := range []string{"--version", "-machine help", "-cpu help"} {
		engine.answers["0 qemu-system-x86_64 "+question] = machines + cpus
	}
	n.node.Engine = engine
	tx := fitTransaction(t, n.node, nil)
	tx.options.Force = true
	for _, want := range []string{"guest a", "guest a", "guest b"} {
		before := len(engine.asked)
		if err := tx.guestsFit(t.Context()); err != nil {
			t.Fatal(err)
		}
		warned := warnings(t, n.node)
		if !strings.HasSuffix(warned, "needed by "+want+"; stop or migrate them, or use another image") {
			t.Errorf("want a warning about %s last: %q", want, warned)
		}
		if before == len(engine.asked) && want != "guest a" {
			t.Errorf("nothing was asked for %s", want)
		}
		if before > 0 && want == "guest a" {
			if before != len(engine.asked) {
				t.Errorf("asked again: %q", engine.asked[before:])
			}
			n.guest(21, "b")
		}
	}
	if err := os.WriteFile(n.node.Host.ProcessPath(21, "cmdline"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tx.fitted = nil
	if err := tx.guestsFit(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
