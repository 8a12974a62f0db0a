// Package bounded is an OCI runtime for machines whose capability bounding set is
// restricted. On such a machine Docker asks runc for capabilities that it cannot
// grant, and privileged containers fail with "unable to apply caps". This runtime
// removes the capabilities that its own bounding set lacks from the container's
// specification, lowers resource limits that need CAP_SYS_RESOURCE, and executes
// runc.
package bounded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Name is the program's name. A program that is started under this name must call
// Main.
const Name = "oci-runtime-bounded"

// names are the names of capabilities by number, from the kernel's capability.h.
var names = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID",
	"CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP", "CAP_LINUX_IMMUTABLE",
	"CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_IPC_LOCK",
	"CAP_IPC_OWNER", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE",
	"CAP_SYS_PACCT", "CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE",
	"CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE", "CAP_AUDIT_WRITE",
	"CAP_AUDIT_CONTROL", "CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG",
	"CAP_WAKE_ALARM", "CAP_BLOCK_SUSPEND", "CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF",
	"CAP_CHECKPOINT_RESTORE",
}

// Missing returns the capabilities that the kernel knows and this process's bounding
// set lacks. If there are none, runc can be used directly.
func Missing() []string {
	var missing []string
	for number, name := range names {
		set, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(number), 0, 0, 0)
		if err == nil && set == 0 { // an error: an older kernel, without it
			missing = append(missing, name)
		}
	}
	return missing
}

// Main edits the specification that the arguments point to and executes runc with the
// same arguments. It returns only if that fails, with runc's exit status for errors.
func Main(args []string) (status int) {
	err := run(args)
	fmt.Fprintf(os.Stderr, "%s: %v\n", Name, err)
	return 1
}

func run(args []string) error {
	if path := document(args[1:]); path != "" {
		edited, err := ownCopy(path)
		if err == nil {
			err = limit(edited, Missing())
		}
		if err != nil {
			return err
		}
		args = replaced(args, filepath.Dir(path), filepath.Dir(edited))
	}
	runc, err := exec.LookPath("runc")
	if errors.Is(err, exec.ErrNotFound) {
		runc, err = exec.LookPath("/usr/sbin/runc") // daemons may have a PATH without sbin
	}
	if err != nil {
		return fmt.Errorf("find runc: %w; install it with: make deps", err)
	}
	err = unix.Exec(runc, append([]string{"runc"}, args[1:]...), os.Environ())
	return fmt.Errorf("execute %s: %w", runc, err)
}

// document returns the path of the file with the process's capabilities: the bundle's
// config.json for create and run, the process file for exec, empty for other commands.
// See runc(8), runc-create(8), runc-exec(8).
func document(args []string) string {
	at := slices.IndexFunc(args, func(arg string) bool {
		return arg == "create" || arg == "run" || arg == "exec"
	})
	if at < 0 {
		return ""
	}
	command, rest := args[at], args[at+1:]
	if command == "exec" {
		return value(rest, "process", "p")
	}
	return filepath.Join(value(rest, "bundle", "b"), "config.json")
}

// value returns the value of a flag in any of the forms -f V, --flag V, -f=V, --flag=V.
func value(args []string, long, short string) string {
	for i, arg := range args {
		name, v, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case arg == "--":
			return ""
		case !strings.HasPrefix(arg, "-") || name != long && name != short:
		case joined:
			return v
		case i+1 < len(args):
			return args[i+1]
		}
	}
	return ""
}

// podmans is the directory of a container in which Podman has the specification. It reads it again to
// say what the container's settings are.
const podmans = "userdata"

// ownCopy returns the path of a specification that may be edited: a copy of Podman's, in a
// bundle of its own. Podman names the root file system by its whole path.
func ownCopy(path string) (string, error) {
	bundle, name := filepath.Split(path)
	if filepath.Base(bundle) != podmans {
		return path, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the specification for runc: %w", err)
	}
	copied := filepath.Join(bundle, "bounded", name)
	if err = os.MkdirAll(filepath.Dir(copied), 0o700); err == nil {
		err = os.WriteFile(copied, text, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("copy the specification for runc: %w", err)
	}
	return copied, nil
}

// replaced returns arguments of which one may be a bundle with another bundle.
func replaced(args []string, bundle, by string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		if arg == bundle && bundle != by && i > 0 && strings.HasPrefix(args[i-1], "-") {
			args[i] = by
		}
	}
	return args
}

// limit removes the missing capabilities from the file at path.
func limit(path string, missing []string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the specification for runc: %w", err)
	}
	changed, err := without(old, missing)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if changed == nil {
		return nil
	}
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		return fmt.Errorf("remove capabilities from the container's process: %w", err)
	}
	return nil
}

// without returns a configuration or process of the OCI runtime specification without
// the given capabilities, and with resource limits that can be set without them. It
// returns nil if nothing has to change. Everything else keeps its exact value.
func without(document []byte, missing []string) ([]byte, error) {
	var root map[string]any
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	if err := d.Decode(&root); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON document")
	}
	process := root
	if p, ok := root["process"].(map[string]any); ok {
		process = p
	}
	sets, _ := process["capabilities"].(map[string]any)
	changed := slices.Contains(missing, "CAP_SYS_RESOURCE") && lower(process, ceiling)
	for name, set := range sets { // bounding, effective, …
		list, _ := set.([]any)
		kept := slices.DeleteFunc(slices.Clone(list), func(c any) bool {
			s, ok := c.(string)
			return ok && slices.Contains(missing, s)
		})
		if len(kept) < len(list) {
			sets[name], changed = kept, true
		}
	}
	if !changed {
		return nil, nil
	}
	return json.Marshal(root)
}
