package userdata

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/configs/report"
)

// EtcDir is the directory of all files that operators write for kollet on a node.
const EtcDir = "/etc/kollet"

// SecretsDir is the usual directory of secrets.
const SecretsDir = EtcDir + "/secrets"

// Node describes the files and commands that user-data brings to a node.
type Node struct {
	Host      string            // the server's name for templates and overrides; may be empty
	NodeFile  string            // local path
	Tree      string            // local directory that is copied to EtcDir; may be empty
	Overrides string            // local directory that is copied to node.OverridesDir instead of Tree's
	Secrets   map[string]string // local files with the values, by name
	Files     []File
	OnNode    []string // files and directories that the image has
	Install   Install
	Bootstrap []string // arguments of kollet bootstrap
}

// part returns kollet's cloud-config.
func (n Node) part(problems *report.Problems) Part {
	problems.Add(n.Install.check())
	files := n.files(problems)
	c := Config{Output: map[string]string{"all": logAll}, RunCommand: [][]string{{"sh", FirstBoot}}}
	for _, at := range slices.Sorted(maps.Keys(files)) {
		c.WriteFiles = append(c.WriteFiles, files[at].Entry())
	}
	script := File{Path: FirstBoot, Owner: "root:root", Perm: 0o700, Data: n.Install.script(n.Bootstrap)}
	c.WriteFiles = append(c.WriteFiles, script.Entry())
	return c.Part("kollet.yaml")
}

// files returns the files to write on the node, by path. Files that are given by
// name replace those of directories.
func (n Node) files(problems *report.Problems) map[string]File {
	files := map[string]File{}
	collect(files, n.Tree, EtcDir, problems)
	if n.Overrides != "" {
		maps.DeleteFunc(files, func(at string, _ File) bool { return strings.HasPrefix(at, node.OverridesDir+"/") })
		collect(files, n.Overrides, node.OverridesDir, problems)
	}
	data, err := os.ReadFile(n.NodeFile)
	if errors.Is(err, fs.ErrNotExist) {
		problems.Addf(report.Place{File: n.NodeFile}, "", "no node file; write one (see `kollet help node-file`), or give its path with --node-file")
		return files
	}
	if err != nil {
		problems.Add(fmt.Errorf("read the node file: %w", err))
		return files
	}
	files[node.DefaultNodeFile] = File{Path: node.DefaultNodeFile, Owner: "root:root", Perm: 0o600, Data: data}
	node, err := nodefile.Parse(n.NodeFile, data, configs.Profile, nodefile.Change{})
	problems.Add(split(err)...)
	n.named(files, node, problems)
	if node != nil && err == nil {
		n.missing(files, node, problems)
		n.dryRun(node, problems)
	}
	return files
}

// named adds the files that were given by name.
func (n Node) named(files map[string]File, node *nodefile.Node, problems *report.Problems) {
	given := map[string]bool{}
	add := func(f File) {
		if given[f.Path] {
			problems.Add(fmt.Errorf("%s is given twice; drop one", f.Path))
		}
		given[f.Path] = true
		files[f.Path] = f
	}
	for _, f := range n.Files {
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path {
			problems.Add(fmt.Errorf("--file %s: expected the absolute path of a file on the node", f.Path))
		}
		add(f)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Secrets)) {
		data, err := os.ReadFile(n.Secrets[name])
		if err != nil {
			problems.Add(fmt.Errorf("--secret %s: %w", name, err))
		}
		if node == nil { // problems of the node file are already reported
			continue
		}
		secret, ok := node.Secrets[name]
		if !ok || secret.File == "" {
			problems.Add(fmt.Errorf("--secret %s: the node file has no secret of this name with a file; add `%s: {file: %s/%s}` to its secrets", name, name, SecretsDir, name))
			continue
		}
		add(File{Path: path.Clean(secret.File), Owner: "root:root", Perm: 0o400, Data: data})
	}
}

// missing finds files that the node file names and the node will not have.
func (n Node) missing(files map[string]File, node *nodefile.Node, problems *report.Problems) {
	need := func(at report.Place, key, file, remedy string) {
		if _, sent := files[path.Clean(file)]; sent || n.onImage(file) {
			return
		}
		problems.Addf(at, key, "%s is not copied to the node; %s, or use --on-node %s if the image has it", file, remedy, file)
	}
	for name, secret := range node.Secrets {
		if key := "secrets." + name + ".file"; secret.File != "" {
			need(node.Place(key), key, secret.File, "add --secret "+name+"=FILE")
		}
	}
	for name, service := range node.Services {
		if _, profile, _, _ := service.Security(); profile != "" {
			key := "services." + name + ".security_opt"
			need(node.Place(key), key, profile, "add --file "+profile+"=FILE")
		}
		for _, f := range service.Config {
			if f.Source != "" && !strings.Contains(f.Source, "{{") && !f.Optional && !sentFor(files, f.Source) {
				need(f.Place, f.Key+".source", f.Source, "add --file "+f.Source+"=FILE")
			}
		}
	}
}

// sentFor reports whether a file is sent that a source of config names, which may be a
// directory or a pattern.
func sentFor(files map[string]File, source string) bool {
	for at := range files {
		for ; at != "/" && at != "."; at = path.Dir(at) {
			if match, err := path.Match(path.Clean(source), at); match && err == nil {
				return true
			}
		}
	}
	return false
}

// onImage reports whether the image has a file.
func (n Node) onImage(file string) bool {
	return slices.ContainsFunc(n.OnNode, func(p string) bool {
		p = path.Clean(p)
		return path.Clean(file) == p || strings.HasPrefix(path.Clean(file), strings.TrimSuffix(p, "/")+"/")
	})
}

// split returns the problems in an error.
func split(err error) []error {
	if all, ok := err.(interface{ WrappedErrors() []error }); ok {
		return all.WrappedErrors()
	}
	return []error{err}
}

// collect adds all files below a local directory as files below to on the node,
// except hidden ones, which rendering ignores too.
func collect(files map[string]File, dir, to string, problems *report.Problems) {
	if dir == "" {
		return
	}
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if at != dir && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		info, err := os.Stat(at) // also through a link
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is neither a file nor a directory; remove it", at)
		}
		data, err := os.ReadFile(at) //nolint:gosec // the operator's own directory, which nobody changes meanwhile
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		f := File{Path: path.Join(to, filepath.ToSlash(below)), Owner: "root:root", Perm: 0o600, Data: data}
		if strings.HasPrefix(f.Path, SecretsDir+"/") {
			f.Perm = 0o400
		}
		files[f.Path] = f
		return nil
	})
	if err != nil {
		problems.Add(fmt.Errorf("collect files for %s: %w", to, err))
	}
}
