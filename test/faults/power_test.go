package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/test/disklog"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
	"github.com/kollet/kollet/test/tiny/image"
)

// TestPower lets the power fail. The node's disk, with the engine's data, logs its writes
// while commands run. Then it is rebuilt as it was at a flush, or with a part of what
// was written after it, and the node starts from there.
func TestPower(t *testing.T) {
	t.Run("docker", func(t *testing.T) {
		losePower(t, 7100, func(t testing.TB, root string) nodetest.Engine {
			return nodetest.OnDocker(machine.Dockerd(t, machine.DockerRoot(root)))
		})
	})
	if quick() {
		return
	}
	t.Run("containerd", func(t *testing.T) {
		losePower(t, 7200, func(t testing.TB, root string) nodetest.Engine {
			return nodetest.OnContainerd(machine.NewContainerdAt(t, root))
		})
	})
}

// quick reports whether this is not make chaos: one engine, two commands and a few power
// losses are enough, because the way there takes longer than they.
func quick() bool { return os.Getenv(seedVar) == "" }

// logged is a command during which the disk's writes were logged.
type logged struct {
	scenario
	first, last int    // its writes: after the first of these numbers, up to the last
	records     []int  // how many writes were done when kollet continued after each of its records
	already     int    // records of its journal before
	before      string // the last journal of before
	from, to    string // the versions before and after it
}

// cut is a power loss.
type cut struct {
	*logged
	writes int    // that the disk got before
	seed   uint64 // which of those after the last flush are lost, and which in part; 0: none
}

func (c cut) String() string {
	text := fmt.Sprintf("%s, power lost after %d of %d writes", c.name, c.writes-c.first, c.last-c.first)
	if c.seed != 0 {
		text += fmt.Sprintf(", a part of the unflushed ones lost (%d)", c.seed)
	}
	return text
}

// powerless is a node whose power fails.
type powerless struct {
	*victim
	disk *machine.Disk
	log  *disklog.Log
	seen map[string]string // the version on which a node ended, by command and files
}

func losePower(t *testing.T, port int, start func(testing.TB, string) nodetest.Engine) {
	registry := machine.NewRegistry(t)
	for _, tag := range []string{"v1", "v2"} {
		image.Image{Tag: tag}.Push(t, registry.Addr, "test/tiny")
	}
	disk := machine.NewDisk(t)
	p := &powerless{disk: disk, seen: map[string]string{}}
	p.victim = newVictimAt(t, start(t, disk.Parts[0]+"/engine"), registry, port, disk.Parts[1]+"/node")
	seed, limit := settings(t)
	commands := []scenario{bootstraps, upgrades, rollsBack, rollbackCommand, recoversBack, recoversTheUpgrade}
	if quick() {
		commands, limit = commands[:2], limit/3
	}
	var all []*logged
	for _, s := range commands {
		all = append(all, p.record(s))
	}
	p.stop()
	defer p.log.Close()
	machine.NewBoot(t)
	cuts := p.cuts(all, rand.New(rand.NewPCG(seed, 0)))
	table := newPowerTable(all, cuts)
	for i, c := range cuts {
		if limit > 0 && time.Since(table.began) > limit || table.failed >= most {
			break
		}
		ends, known, err := p.lose(c, i%4 == 0)
		table.add(c, ends, known, err)
		if err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
	t.Logf("seed %d\n%s", seed, table)
}

// stop ends the log, and requires that it has everything that was written to the disk.
func (p *powerless) stop() {
	p.T.Helper()
	p.engine.LosePower()
	p.disk.Unmount()
	p.disk.Stop()
	var err error
	p.log, err = disklog.Open(p.disk.Log)
	check(p.T, err)
	check(p.T, p.rebuild(cut{writes: p.log.Len()}, rebuilt))
	if out, err := exec.Command("cmp", p.disk.Raw, rebuilt).CombinedOutput(); err != nil {
		p.T.Fatalf("the log does not have all writes: %v\n%s", err, out)
	}
}

// record runs a scenario's command while the disk logs its writes.
func (p *powerless) record(s scenario) *logged {
	p.T.Helper()
	c := &logged{scenario: s, before: p.lastJournal(), from: p.tag}
	_, err := p.prepare(s)
	check(p.T, err)
	if p.lastJournal() != c.before {
		c.already = len(p.records())
	}
	p.disk.Sync()
	c.first = p.writes()
	o := p.Stepwise(s.args, func(int) bool {
		c.records = append(c.records, p.writes())
		return false
	})
	if failed := o.Code == 1; o.Code > 1 || failed != s.broken {
		p.T.Fatalf("%s: exit status %d: %s", s.name, o.Code, short(o))
	}
	p.disk.Sync()
	c.last, c.to = p.writes(), p.due(c.before)
	p.tag = c.to
	check(p.T, p.whole(p.tag))
	return c
}

// writes returns how many writes the disk has got, up to its last flush.
func (p *powerless) writes() int {
	p.T.Helper()
	n, err := disklog.Count(p.disk.Log)
	check(p.T, err)
	return n
}

// cuts returns the power losses to replay, in random order: after every flush, and among
// the writes between two of them.
func (p *powerless) cuts(all []*logged, r *rand.Rand) []cut {
	var cuts []cut
	for _, c := range all {
		for _, n := range p.log.Flushes(c.first, c.last) {
			cuts = append(cuts, cut{c, n, 0})
			if between := p.log.Unflushed(n - 1); between > 0 {
				cuts = append(cuts, cut{c, n - 1 - r.IntN(between), 1 + r.Uint64N(1<<32)})
			}
		}
	}
	r.Shuffle(len(cuts), func(i, k int) { cuts[i], cuts[k] = cuts[k], cuts[i] })
	return cuts
}

// rebuilt is the disk as it is after a power loss, in memory.
const rebuilt = "/run/disk"

// rebuild writes the disk's image as it is after a power loss.
func (p *powerless) rebuild(c cut, path string) error {
	if out, err := exec.Command("cp", "--sparse=always", p.disk.Blank, path).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the disk: %w\n%s", err, out)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if c.seed == 0 {
		return p.log.Write(f, 0, c.writes)
	}
	kept := c.writes - p.log.Unflushed(c.writes)
	if err := p.log.Write(f, 0, kept); err != nil {
		return err
	}
	return p.log.Lose(f, kept, c.writes, rand.New(rand.NewPCG(c.seed, 0)))
}

// lose starts the node from the disk of a power loss, has it recovered, and checks it. It
// returns the version on which the node ends. It is known if another power loss in the command
// left the same files: most flushes end a transaction of ext4, which are several writes.
func (p *powerless) lose(c cut, upgraded bool) (ends string, known bool, err error) {
	if err := p.rebuild(c, rebuilt); err != nil {
		return "", false, err
	}
	p.disk.Mount(rebuilt)
	defer func() {
		p.engine.LosePower()
		p.disk.Unmount()
		err = errors.Join(err, os.Remove(rebuilt))
	}()
	p.tag = c.from
	ends = p.due(c.before)
	pulling := p.pulling()
	if err := p.kept(c); err != nil {
		return ends, false, err
	}
	files := c.name + " " + p.disk.Files()
	if ends, known := p.seen[files]; known {
		return ends, true, nil
	}
	p.engine.Start()
	var story strings.Builder
	twice := p.watch()
	err = errors.Join(p.recovers(c, ends, pulling, &story), twice())
	if err == nil && !pulling {
		err = p.goesOn(upgraded)
	}
	if err != nil {
		err = fmt.Errorf("%w%s", err, story.String())
		p.PrintState()
		return ends, false, err
	}
	p.seen[files] = ends
	return ends, false, nil
}

// kept requires that the disk has every record after which kollet continued.
func (p *powerless) kept(c cut) error {
	flushed := c.writes - p.log.Unflushed(c.writes)
	want := c.already
	for _, writes := range c.records {
		if writes <= flushed {
			want++
		}
	}
	have := 0
	if p.lastJournal() != c.before {
		have = len(p.records())
	}
	if have < want {
		return fmt.Errorf("the journal has %d records, though kollet continued after record %d", have, want)
	}
	return nil
}

// pulling reports whether the power was lost while the engine pulled images. containerd 1.6
// may then take an image for whole whose files are empty, or refuse to pull it again: such a
// node is only required to stay as it was.
func (p *powerless) pulling() bool {
	all := p.records()
	return len(all) > 0 && all[len(all)-1].Event == journal.Intent && all[len(all)-1].Step.Kind == journal.Pull
}

// recovers recovers a node and requires that it is on the version that its journal says.
func (p *powerless) recovers(c cut, ends string, pulling bool, story *strings.Builder) error {
	o := p.Kollet(recovery...)
	fmt.Fprintf(story, "\nrecover: exit status %d: %s", o.Code, short(o))
	if o.Code != 0 {
		return errors.New("recover failed")
	}
	if due := p.due(c.before); due != ends {
		return fmt.Errorf("the recovery of %s made it %s", ends, due)
	}
	if ends == "" && pulling {
		return p.ended()
	}
	if ends == "" { // as the next boot does
		o, ends = p.Kollet(bootstraps.args...), c.to
		fmt.Fprintf(story, "\nbootstrap: exit status %d: %s", o.Code, short(o))
		if o.Code != 0 {
			return errors.New("bootstrap failed")
		}
	}
	p.tag = ends
	return errors.Join(settled(killSuite{}, func() error { return p.verified(ends) }), p.ended())
}
