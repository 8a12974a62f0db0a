package firstboot

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // the unit
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/kollet/kollet/agent/durable"
)

// Unit holds the values of the systemd unit, which runs at each boot, after the
// engine has started.
type Unit struct {
	Engine  string   // docker, containerd or podman
	Program string   // kollet's own path
	Flags   []string // that kollet needs to find this node; usually none
	State   string   // kollet's state directory
}

// UnitName is the unit's name.
const UnitName = "kollet-recover.service"

const (
	unitDir  = "/etc/systemd/system"
	wantsDir = unitDir + "/multi-user.target.wants"
	// Exists if and only if systemd is the init system, sd_booted(3).
	systemdDir = "/run/systemd/system"
)

// units are those of an engine with which containers run again after a boot, if there are others
// than its service.
var units = map[string]string{
	"podman": "podman.socket podman-restart.service", // Podman runs nothing by itself
}

//go:embed kollet-recover.service.tmpl
var unitText string

var unitTemplate = template.Must(template.New(UnitName).Parse(unitText))

// Text returns the content of the unit file.
func (u Unit) Text() string {
	var program strings.Builder
	program.WriteString(quote(u.Program))
	for _, flag := range u.Flags {
		program.WriteString(" " + quote(flag))
	}
	var b bytes.Buffer
	err := unitTemplate.Execute(&b, map[string]string{"Units": cmp.Or(units[u.Engine], u.Engine+".service"), "Program": program.String(), "State": specifiers.Replace(u.State)})
	if err != nil {
		panic(err) // cannot fail with these values
	}
	return b.String()
}

// systemd expands specifiers and variables unless their first character is
// doubled (systemd.unit(5), systemd.service(5)).
var (
	specifiers = strings.NewReplacer("%", "%%")
	special    = strings.NewReplacer("%", "%%", "$", "$$", `\`, `\\`, `"`, `\"`)
)

// quote quotes a word of a command line in a unit.
func quote(word string) string {
	if plain := special.Replace(word); plain == word && word != "" && !strings.ContainsAny(word, " \t\n';") {
		return word
	}
	return `"` + strings.ReplaceAll(special.Replace(word), "\n", `\n`) + `"`
}

// Booted reports whether systemd is the init system.
func Booted(root string) bool {
	_, err := os.Stat(filepath.Join(root, systemdDir))
	return err == nil
}

// Install writes the unit and enables it. It reports whether anything changed.
// What it wrote is on stable storage when it returns.
func (u Unit) Install(ctx context.Context, root string) (bool, error) {
	path := filepath.Join(root, unitDir, UnitName)
	link := filepath.Join(root, wantsDir, UnitName)
	have, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("install the systemd unit: %w", err)
	}
	target, _ := os.Readlink(link)
	if err == nil && string(have) == u.Text() && target == filepath.Join(unitDir, UnitName) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return false, fmt.Errorf("install the systemd unit: %w", err)
	}
	if err := durable.WriteFile(path, []byte(u.Text()), 0o644); err != nil {
		return false, fmt.Errorf("install the systemd unit: %w", err)
	}
	// As systemctl enable does, which asks the running systemd and so does not
	// work below another root.
	if err := durable.Symlink(filepath.Join(unitDir, UnitName), link); err != nil {
		return false, fmt.Errorf("install the systemd unit: %w", err)
	}
	return true, reload(ctx, root)
}

// reload makes the running systemd read the unit.
func reload(ctx context.Context, root string) error {
	if root != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "systemctl", "daemon-reload").CombinedOutput(); err != nil {
		return fmt.Errorf("reload systemd: systemctl daemon-reload: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
