// Package target works out what a node should become: what its node file says now,
// or what an earlier generation was.
package target

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/wary"
	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/configs/redact"
	"github.com/kollet/kollet/configs/report"
)

// Options change the target of one run.
type Options struct {
	Images map[string]string // service: image reference
	Tag    string            // instead of images.tag
	Pull   string            // instead of images.pull_policy

	DropTag    bool     // return to images.tag
	DropImages []string // services that return to the node file's image

	Archives []string      // before images.archives
	Wait     time.Duration // for archives that are not there yet

	Elsewhere bool // only its files are of interest: what its services need of a host need not be on this one

	explain string // see Explain
}

// Target is what a node should become. It does not change once it is made: what
// only their images can say of its services is in Images.
type Target struct {
	Reason       string // bootstrap, upgrade, rollback to 3
	Base         int    // the generation that was current
	Hotfix       nodefile.Hotfix
	FileTag      string // images.tag of the node file
	Engine       string
	Pull         string                           // images.pull_policy
	StallTimeout time.Duration                    // images.stall_timeout
	Archives     []string                         // files that may hold images, as patterns
	Wait         time.Duration                    // how long to wait for them
	Recalled     bool                             // an earlier generation: its images are known by content
	Returns      bool                             // generation 0: its containers are there
	Services     []generation.Service             // in start order
	Files        map[string][]generation.Rendered // by service; with secrets
	Key          generation.Key                   // of the digests of Files
	OsloFiles    []OsloFile
	Cloud        Cloud
	Redactor     *redact.Redactor

	explained []Explained
}

// Read makes a target of the node file, and of the hotfix of the current generation. The
// error has all problems of the node file and of everything that it names.
func Read(n *node.Node, opts Options, reason string) (*Target, error) {
	// A generation that cannot be read has no hotfix: what needs the generation itself
	// reads it after a recovery, and resolves the target again if it is another one.
	current, _ := n.Current()
	file, err := n.ReadFile(nodefile.Change{Tag: opts.Tag, Images: opts.Images, PullPolicy: opts.Pull, Kept: current.Hotfix, DropTag: opts.DropTag, DropImages: opts.DropImages})
	if err != nil {
		return nil, node.BadInput{Err: err}
	}
	key, err := n.Key()
	if err != nil {
		return nil, err
	}
	var problems report.Problems
	t := &Target{Reason: reason + opts.text(), Base: current.Number, Hotfix: file.Hotfix, FileTag: file.FileTag, Engine: file.Engine, Pull: file.Images.PullPolicy, StallTimeout: file.Images.StallTimeout, Wait: opts.Wait, Key: key, Files: map[string][]generation.Rendered{}}
	t.Archives = slices.Concat(opts.Archives, file.Images.Archives)
	writable := writableDirs(n, file, current)
	secrets := readSecrets(n, file, writable, &problems)
	t.Cloud = cloudOf(n, file, writable, secrets)
	renderer, err := configs.New(configs.Inputs{
		Host:      n.Name,
		Vars:      file.Vars,
		OwnVars:   file.OwnVars,
		KnownVars: file.KnownVars,
		Secrets:   secrets,
		Instance:  instance(n, writable),
		Templates: n.Path(node.TemplatesDir),
		Overrides: n.Path(node.OverridesDir),
		ReadFile:  func(path string) ([]byte, error) { return writable.ReadFile(path, mostBytes) },
		Place:     file.Place,
	})
	if err != nil {
		return nil, node.BadInput{Err: err}
	}
	t.Redactor = renderer.Redactor()
	for _, name := range file.Order() {
		b := builder{node: n, key: key, file: file, writable: writable, renderer: renderer, problems: &problems, name: name, from: file.Services[name], elsewhere: opts.Elsewhere, explain: opts.explain}
		service, files := b.build()
		t.Services = append(t.Services, service)
		t.explained = append(t.explained, b.explained...)
		t.OsloFiles = append(t.OsloFiles, b.osloFiles...)
		t.Files[name] = files
	}
	if problems.Len() == 0 {
		problems.Add(renderer.Unused()...)
	}
	if err := problems.Err(); err != nil {
		return nil, node.BadInput{Err: t.Redactor.Error(err)}
	}
	return t, nil
}

// text is what the options say of images, for the history.
func (o Options) text() string {
	var text strings.Builder
	if o.Tag != "" {
		text.WriteString(" --tag " + o.Tag)
	}
	for _, service := range slices.Sorted(maps.Keys(o.Images)) {
		text.WriteString(" --image " + service + "=" + o.Images[service])
	}
	if o.DropTag {
		text.WriteString(" --drop-tag")
	}
	for _, service := range o.DropImages {
		text.WriteString(" --drop-image " + service)
	}
	return text.String()
}

// mostRead is how large a file may be that a node file names, or cloud-init's instance data.
const mostRead = 1 << 20

// instance is cloud-init's instance data; empty if it did not run.
func instance(n *node.Node, writable wary.Dirs) map[string]any {
	data, err := writable.ReadFile(n.Path(node.InstanceData), mostRead)
	var values map[string]any
	if err != nil || json.Unmarshal(data, &values) != nil {
		return map[string]any{}
	}
	return values
}
