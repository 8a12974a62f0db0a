// Package adopt works out how a node that kolla-ansible runs becomes one of kollet: it
// reads kolla-ansible's containers and their configuration, and writes a node file with
// the same services. It changes nothing.
//
// Everything that the node file cannot say is a finding: what blocks a take-over, what is
// left to kolla-ansible, and what will differ. Nothing is left out silently.
package adopt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kollet/kollet/agent/durable"
	"github.com/kollet/kollet/agent/health"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/configs/report"
	"github.com/kollet/kollet/containers"
)

// Options choose what is taken over.
type Options struct {
	Include []string // containers that would stay otherwise
	Exclude []string // containers that stay
}

// Proposal is a node file with the services of kolla-ansible's containers, and what an operator
// should know about it.
type Proposal struct {
	NodeFile string    `json:"node_file"`
	Services []Service `json:"services"` // in the order of their names
	Blocked  []Finding `json:"blocked"`  // nothing can be taken over because of these
	Stays    []Finding `json:"stays"`    // left to kolla-ansible
	Differs  []Finding `json:"differs"`  // will not be as before
}

// Service is a container that is taken over.
type Service struct {
	Name      string `json:"name"`
	Container string `json:"container"`
	ID        string `json:"id"`
	Image     string `json:"image"`
}

// Finding is about a container, or about all if it names none.
type Finding struct {
	Container string `json:"container,omitempty"`
	Text      string `json:"text"`
	Remedy    string `json:"remedy,omitempty"`

	unwritten bool // it blocks because a proposed node file cannot say it; another may do without
}

func (f Finding) String() string {
	text := f.Text
	if f.Container != "" {
		text = f.Container + ": " + text
	}
	if f.Remedy != "" {
		text += "; " + f.Remedy
	}
	return text
}

// ErrNothing means that there is nothing to take over.
var ErrNothing = errors.New("this engine has no containers of kolla-ansible; if it is not the one that kolla-ansible uses, give its address with --engine")

// found is a container of kolla-ansible, with all that is read of it.
type found struct {
	container containers.Container
	image     containers.Image // that it was created from
	tag       containers.Image // that its image's name means now
	config    description      // its config.json or config.yaml
	dir       string           // on the host, with its config files
	path      string           // of dir in a node file: below the node's root
	err       error            // why that cannot be read
	restarts  error            // that it exits repeatedly
}

// Read reads the containers of kolla-ansible on a node's engine, and proposes a node file.
func Read(ctx context.Context, n *node.Node, opts Options) (Proposal, error) {
	info, err := n.Engine.Info(ctx)
	if err != nil {
		return Proposal{}, err
	}
	if info.Name != "docker" {
		return Proposal{}, node.BadInput{Err: fmt.Errorf("kolla-ansible's containers cannot be taken over on %s, only on Docker; if this is not kolla-ansible's engine, see --engine, and engine in %s", info.Name, n.NodeFilePath())}
	}
	all, err := n.Engine.List(ctx, nil)
	if err != nil {
		return Proposal{}, err
	}
	current, err := n.Current()
	if err != nil {
		return Proposal{}, err
	}
	taken := len(current.Services) > 0 && !current.Adopted()
	all = slices.DeleteFunc(all, func(c containers.Container) bool { return !node.IsKolla(c) || taken && node.IsAdopted(c) })
	if len(all) == 0 {
		return Proposal{}, ErrNothing
	}
	if err := opts.check(all); err != nil {
		return Proposal{}, node.BadInput{Err: err}
	}
	slices.SortFunc(all, func(a, b containers.Container) int { return strings.Compare(a.Spec.Name, b.Spec.Name) })
	var read []found
	var stays []Finding
	for _, c := range all {
		if why := opts.stays(c); why != "" {
			stays = append(stays, Finding{Container: c.Spec.Name, Text: why})
			continue
		}
		f, err := look(ctx, n, c)
		if err != nil {
			return Proposal{}, err
		}
		read = append(read, f)
	}
	return propose(n, read, stays)
}

// check refuses names that no container has.
func (o Options) check(all []containers.Container) error {
	var names []string
	for _, c := range all {
		names = append(names, c.Spec.Name)
	}
	for _, given := range []struct {
		flag  string
		names []string
	}{{"--include", o.Include}, {"--exclude", o.Exclude}} {
		for _, name := range given.names {
			if !slices.Contains(names, name) {
				return fmt.Errorf("%s %s: kolla-ansible has no such container on this node%s", given.flag, name, report.DidYouMean(name, names))
			}
		}
	}
	return nil
}

// stays says why a container is left to kolla-ansible; empty if it is not.
func (o Options) stays(c containers.Container) string {
	const unless = "; --include " // takes it over
	name := c.Spec.Name
	switch {
	case slices.Contains(o.Exclude, name):
		return "left to kolla-ansible by --exclude"
	case slices.Contains(o.Include, name):
		return ""
	case tools[name] != "":
		return tools[name] + unless + name + " takes it over too"
	case !isCompute(name):
		return "not one of a compute node's services" + unless + name + " takes it over too"
	}
	return ""
}

// look reads what belongs to a container.
func look(ctx context.Context, n *node.Node, c containers.Container) (found, error) {
	byUnit, err := n.UnitRestarts(ctx, c.Spec.Name)
	if err != nil {
		return found{}, err
	}
	f := found{container: c}
	c.Restarts = max(c.Restarts, byUnit)
	f.restarts = health.Restarting(c, n.Host)
	for _, image := range []struct {
		ref  string
		into *containers.Image
	}{{c.ImageID, &f.image}, {c.Spec.Image, &f.tag}} {
		got, err := n.Engine.Image(ctx, image.ref)
		if err != nil && !errors.Is(err, containers.ErrNotFound) {
			return f, err
		}
		*image.into = got
	}
	at := slices.IndexFunc(c.Spec.Mounts, node.IsConfigMount)
	if at < 0 {
		return f, nil
	}
	f.dir = c.Spec.Mounts[at].Source
	f.path = strings.TrimPrefix(f.dir, n.Root)
	f.config, f.err = readDescription(f.dir)
	return f, nil
}

// propose writes the node file for some containers.
func propose(n *node.Node, taken []found, stays []Finding) (Proposal, error) {
	p := Proposal{Services: []Service{}, Blocked: []Finding{}, Stays: stays, Differs: slices.Clone(general)}
	if p.Stays == nil {
		p.Stays = []Finding{}
	}
	known, err := profiled()
	if err != nil {
		return p, err
	}
	var services []translated
	for _, f := range taken {
		t := translate(f)
		p.Blocked = append(p.Blocked, t.blocked...)
		p.Differs = append(p.Differs, t.differs...)
		p.Services = append(p.Services, Service{Name: t.name, Container: f.container.Spec.Name, ID: f.container.ID, Image: t.service.Image})
		services = append(services, t)
	}
	if len(services) == 0 {
		p.Blocked = append(p.Blocked, Finding{Text: "no container is left to take over", Remedy: "see why each of them stays"})
	}
	own, err := hasNodeFile(n)
	if err != nil {
		return p, err
	}
	if own {
		p.allow()
	}
	like(services, known)
	images := common(services)
	p.NodeFile = text(n.Name, images, services, p)
	if len(p.Blocked) > 0 {
		return p, nil
	}
	found := misread(p.NodeFile)
	var end strings.Builder // where it does not move the lines that it names
	if own {
		for i := range found {
			found[i].Remedy = "write it differently in the node file"
		}
		p.Differs = append(p.Differs, found...)
		comment(&end, "Not as it stands here", found)
	} else {
		p.Blocked = found
		comment(&end, "Not possible, because of", found)
	}
	p.NodeFile += end.String()
	return p, nil
}

// misread finds what kollet would refuse in a proposed node file, or read as something else.
func misread(text string) []Finding {
	found := templates(text)
	if _, err := nodefile.Parse("the node file that --plan prints", []byte(text), configs.Profile, nodefile.Change{}); err != nil {
		for line := range strings.Lines(err.Error()) {
			found = append(found, Finding{Text: strings.TrimSpace(line), Remedy: ownFile})
		}
	}
	return found
}

// allow lets pass what only the proposed node file cannot say, on a node that has another.
func (p *Proposal) allow() {
	for _, f := range p.Blocked {
		if f.unwritten {
			f.Remedy = ""
			p.Differs = append(p.Differs, f)
		}
	}
	p.Blocked = slices.DeleteFunc(p.Blocked, func(f Finding) bool { return f.unwritten })
}

// Unwritten is what the proposed node file cannot say. It is up to the node's own to say it.
func (p Proposal) Unwritten() []Finding {
	return slices.DeleteFunc(slices.Clone(p.Differs), func(f Finding) bool { return !f.unwritten })
}

// ownFile is the remedy for what a proposed node file cannot say.
const ownFile = "write the node file yourself, from that which --plan prints, or leave the container with --exclude"

// templates finds text of kolla-ansible that would be a template in a node file.
func templates(nodeFile string) (found []Finding) {
	number := 0
	for line := range strings.Lines(nodeFile) {
		number++
		if key, _, _ := strings.Cut(line, ":"); strings.Contains(line, "{{") && !strings.HasPrefix(line, "#") {
			found = append(found, Finding{
				Text:   fmt.Sprintf("line %d, %s, contains {{, which begins a template in a node file", number, strings.Trim(key, " -{")),
				Remedy: ownFile,
			})
		}
	}
	return found
}

func hasNodeFile(n *node.Node) (bool, error) {
	_, err := os.Lstat(n.NodeFilePath())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// WriteMissing writes the proposed node file if there is none.
func (p Proposal) WriteMissing(n *node.Node) error {
	if own, err := hasNodeFile(n); own || err != nil {
		return err
	}
	return p.Write(n)
}

// Write writes the proposed node file. One that is there is kept.
func (p Proposal) Write(n *node.Node) error {
	path := n.NodeFilePath()
	if len(p.Blocked) > 0 {
		return fmt.Errorf("%s is not written: the node cannot be taken over", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write the node file: %w", err)
	}
	if own, err := hasNodeFile(n); err != nil {
		return fmt.Errorf("write the node file: %w", err)
	} else if own {
		return node.BadInput{Err: fmt.Errorf("%s is there already, and is not replaced; move it away, or give another path with --node-file", path)}
	}
	return durable.WriteFile(path, []byte(p.NodeFile), 0o600)
}
