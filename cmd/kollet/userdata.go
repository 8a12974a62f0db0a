package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/durable"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/userdata"
	"github.com/kollet/kollet/cmd/kollet/view"
	"github.com/kollet/kollet/configs/report"
)

const userdataLong = `Userdata creates user-data for a server, so that cloud-init writes the node file and
the files that it needs, installs kollet if the image lacks it, and runs kollet
bootstrap at the end of the first boot.

The node file is checked as kollet upgrade checks it, its templates are rendered
as a test, and every file that it refers to must be sent to the node. Conditions of
the node, such as mounts, cannot be checked. With --root DIR, all of DIR/etc/kollet
is sent: put everything there that belongs into /etc/kollet, with overrides in
config and secrets in secrets. Names that begin with a dot are skipped.

Without parts of your own the result is a plain cloud-config, otherwise a MIME
multipart message. Your parts come before kollet's, and cloud-init runs your
scripts, in the order in which you give them, before it starts kollet. Lists in
your cloud-configs, such as runcmd, are merged with kollet's.

The same input produces the same bytes. The result is written to standard output,
or to a file that only you can read; it contains the secrets. A terminal shows it
without control characters.`

func (a *app) userdata() *cobra.Command {
	cmd := a.userdataBuild("userdata")
	cmd.Short = "Create cloud-init user-data that sets up a node"
	build := a.userdataBuild("build")
	build.Short = "Same as kollet userdata"
	cmd.AddCommand(build, a.userdataInspect())
	return cmd
}

func (a *app) userdataBuild(name string) *cobra.Command {
	var from userdataFlags
	var to outputFlags
	cmd := &cobra.Command{
		Use:  name,
		Long: userdataLong + exitHelp(map[int]string{exitDone: "success", exitFailed: "failed; nothing was written"}, exitDone, exitFailed, exitInput),
		Example: `  kollet userdata --root cmp1 --to cmp1.user-data
  kollet userdata --node-file node.yaml --secret rabbit_password=rabbit.txt \
      --install https://example.com/kollet --sha256 "$SUM" --part tune.sh --gzip --to user-data
  openstack server create --user-data user-data …`,
		Args: takes(0, 0),
		RunE: a.offline(func(_ context.Context, n *agent.Agent, _ []string) (view.View, error) {
			printed := to.path == "" || to.path == "-"
			if !printed {
				if err := to.checkFree(); err != nil {
					return nil, err
				}
			}
			r, flags := from.recipe(a, n)
			m, err := userdata.Build(r)
			if err := errors.Join(flags, err); err != nil {
				return nil, node.BadInput{Err: err}
			}
			if printed {
				return view.UserData{Report: m.Report(), Data: m.Data}, nil
			}
			if err := durable.WriteFile(to.path, m.Data, 0o600); err != nil {
				return nil, err
			}
			return view.UserData{Report: m.Report(), Path: to.path}, nil
		}),
	}
	from.add(cmd)
	to.add(cmd, "`FILE` to write; default: standard output")
	return cmd
}

// userdataFlags are the flags for the content of user-data.
type userdataFlags struct {
	overrides             string
	secrets, files, parts []string
	stored, onNode, args  []string
	install               userdata.Install
	format                choice
	gzip                  bool
	limit                 int
}

func (r *userdataFlags) add(cmd *cobra.Command) {
	r.format.value, r.format.of = "auto", []string{"auto", "cloud-config", "multipart"}
	f := cmd.Flags()
	f.StringVar(&r.overrides, "overrides", "", "`DIR` of overrides for /etc/kollet/config")
	f.StringArrayVar(&r.secrets, "secret", nil, "`NAME=FILE`: local file with a secret of the node file; can be repeated")
	f.StringArrayVar(&r.files, "file", nil, "`PATH=FILE[,owner=USER:GROUP][,perm=0600]`: a file to write on the node; can be repeated")
	f.StringArrayVar(&r.onNode, "on-node", nil, "`PATH` of a file or directory that the image already has; can be repeated")
	f.StringVar(&r.install.From, "install", "", "`URL` of the kollet program or .deb, or a Debian package name, for images without kollet")
	f.StringVar(&r.install.SHA256, "sha256", "", "SHA-256 `DIGEST` of the file at the URL of --install")
	f.StringArrayVar(&r.args, "bootstrap-arg", nil, "`ARG` for kollet bootstrap on the node; can be repeated")
	f.StringArrayVar(&r.parts, "part", nil, "`[TYPE=]FILE`: a part of your own; without TYPE, its first line determines the type; can be repeated")
	f.StringArrayVar(&r.stored, "store", nil, "`FILE` to store below "+userdata.StoredDir+" on the node; can be repeated")
	f.Var(&r.format, "format", "format of the result")
	f.BoolVar(&r.gzip, "gzip", false, "compress the result; cloud-init decompresses it")
	f.IntVar(&r.limit, "limit", userdata.NovaLimit, "maximum size in `BYTES`, base64-encoded; 0: no limit")
	complete(cmd, "format", r.format.of)
}

func (r *userdataFlags) recipe(a *app, on *agent.Agent) (userdata.Recipe, error) {
	n := userdata.Node{
		Host: a.flags.host, NodeFile: filepath.Join(on.Root(), on.NodeFile()), Overrides: r.overrides, OnNode: r.onNode,
		Secrets: map[string]string{}, Install: r.install, Bootstrap: r.args,
	}
	if a.flags.root != "" { // as given, for errors
		n.NodeFile = filepath.Join(a.flags.root, on.NodeFile())
		n.Tree = filepath.Join(a.flags.root, userdata.EtcDir)
	}
	out := userdata.Recipe{Format: userdata.Format(r.format.value), Gzip: r.gzip, Limit: max(0, r.limit)}
	var all []error
	if r.limit < 0 {
		all = append(all, fmt.Errorf("--limit %d: expected a size in bytes, or 0 for no limit", r.limit))
	}
	for _, s := range r.secrets {
		name, file, err := splitPair("secret", s, "NAME=FILE")
		if _, twice := n.Secrets[name]; twice && err == nil {
			err = fmt.Errorf("--secret %s is given twice", name)
		}
		n.Secrets[name] = file
		all = append(all, err)
	}
	for _, s := range r.files {
		f, err := fileFlag(s)
		n.Files, all = append(n.Files, f), append(all, err)
	}
	for _, s := range r.parts {
		p, err := partFlag(s)
		if err == nil {
			out.Parts = append(out.Parts, p)
		}
		all = append(all, err)
	}
	for _, s := range r.stored {
		data, err := os.ReadFile(s)
		if err != nil {
			err = fmt.Errorf("--store: %w", err)
		}
		out.Stored, all = append(out.Stored, userdata.Part{Name: filepath.Base(s), Data: data}), append(all, err)
	}
	out.Node = n
	return out, errors.Join(all...)
}

// splitPair splits A=B.
func splitPair(flag, value, form string) (left, right string, err error) {
	left, right, _ = strings.Cut(value, "=")
	if left == "" || right == "" {
		err = fmt.Errorf("--%s: expected %s, got %q", flag, form, value)
	}
	return left, right, err
}

// fileFlag reads PATH=FILE[,owner=USER:GROUP][,perm=0600].
func fileFlag(value string) (f userdata.File, err error) {
	words := strings.Split(value, ",")
	var source string
	if f.Path, source, err = splitPair("file", words[0], "PATH=FILE[,owner=USER:GROUP][,perm=0600]"); err != nil {
		return f, err
	}
	f.Owner, f.Perm = "root:root", 0o600
	for _, w := range words[1:] {
		key, v, _ := strings.Cut(w, "=")
		switch key {
		case "owner":
			f.Owner, err = userdata.Owner(v)
		case "perm":
			f.Perm, err = userdata.Perm(v)
		default:
			err = fmt.Errorf("expected owner=… or perm=…, got %q", w)
		}
		if err != nil {
			return f, fmt.Errorf("--file %s: %w", f.Path, err)
		}
	}
	if f.Data, err = os.ReadFile(source); err != nil {
		err = fmt.Errorf("--file %s: %w", f.Path, err)
	}
	return f, err
}

// partFlag reads [TYPE=]FILE. The text before an equals sign is a type, unless
// there is a file with the whole name.
func partFlag(value string) (p userdata.Part, err error) {
	kind, file, typed := strings.Cut(value, "=")
	if _, err := os.Stat(value); err == nil || !typed {
		typed, file = false, value
	}
	p.Name = file
	if typed {
		if p.Type = userdata.ParseType(kind); p.Type == "" {
			hint := cmp.Or(report.DidYouMean(kind, userdata.Types()), "; expected one of "+strings.Join(userdata.Types(), ", "))
			return p, fmt.Errorf("--part %s: unknown type %q%s", value, kind, hint)
		}
	}
	if p.Data, err = os.ReadFile(file); err != nil {
		return p, fmt.Errorf("--part: %w", err)
	}
	if !typed {
		if p.Type = userdata.TypeOf(p.Data); p.Type == "" {
			return p, fmt.Errorf("--part %s: cannot determine its type from the first line; write TYPE=%s, with one of %s", file, file, strings.Join(userdata.Types(), ", "))
		}
	}
	return p, nil
}

// outputFlags are the flags for where a command writes its result.
type outputFlags struct {
	path  string
	force bool
}

func (t *outputFlags) add(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&t.path, "to", "", usage)
	cmd.Flags().BoolVar(&t.force, "force", false, "replace an existing file")
}

// checkFree returns an error if the result must not be written.
func (t *outputFlags) checkFree() error {
	if _, err := os.Lstat(t.path); err == nil && !t.force {
		return node.BadInput{Err: fmt.Errorf("%s exists; use --force to replace it, or choose another path", t.path)}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return node.BadInput{Err: err}
	}
	return nil
}

func (a *app) userdataInspect() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show the content of user-data",
		Long: `Inspect reads user-data as plain text, MIME message, compressed or base64-encoded,
and shows its parts, the files that it writes, and its size relative to Nova's
limit. It does not show the contents of files. FILE can be - for standard input.` +
			exitHelp(map[int]string{exitDone: "success", exitInput: "the file cannot be read, or cloud-init would ignore part of it"}, exitDone, exitInput),
		Example: `  kollet userdata inspect user-data
  openstack server show cmp1 -f value -c OS-EXT-SRV-ATTR:user_data | kollet userdata inspect -`,
		Args: takes(1, 1),
		RunE: a.offline(func(_ context.Context, _ *agent.Agent, args []string) (view.View, error) {
			data, err := a.readInput(args[0])
			if err != nil {
				return nil, node.BadInput{Err: err}
			}
			m, was64, err := userdata.Read(args[0], data)
			if err != nil {
				return nil, node.BadInput{Err: err}
			}
			shown := m.Report()
			shown.Base64 = was64
			if err := m.Problems(args[0]); err != nil {
				return view.UserData{Report: shown}, node.BadInput{Err: err}
			}
			return view.UserData{Report: shown}, nil
		}),
	}
}

func (a *app) readInput(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(a.in)
	}
	return os.ReadFile(path)
}
