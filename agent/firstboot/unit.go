package firstboot

import (
	"bytes"
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

// Unit is what the systemd unit depends on. It runs at each boot, after the
// engine.
type Unit struct {
	Engine  string   // docker or containerd
	Program string   // kollet's own path
	Flags   []string // that kollet needs to find this node; none on most
	State   string   // kollet's state directory
}

// UnitName is the unit's name.
const UnitName = "kollet-recover.service"

const (
	unitDir  = "/etc/systemd/system"
	wantsDir = unitDir + "/multi-user.target.wants"
	// There is a systemd if and only if this exists: sd_booted(3).
	systemdDir = "/run/systemd/system"
)

//go:embed kollet-recover.service.tmpl
var unitText string

var unitTemplate = template.Must(template.New(UnitName).Parse(unitText))

// Text is the unit's file.
func (u Unit) Text() string {
	var program strings.Builder
	program.WriteString(quote(u.Program))
	for _, flag := range u.Flags {
		program.WriteString(" " + quote(flag))
	}
	var b bytes.Buffer
	err := unitTemplate.Execute(&b, map[string]string{"Engine": u.Engine, "Program": program.String(), "State": specifiers.Replace(u.State)})
	if err != nil {
		panic(err) // plain data
	}
	return b.String()
}

// specifiers, and with them variables, mean something to systemd unless they
// are doubled (systemd.unit(5), systemd.service(5)).
var (
	specifiers = strings.NewReplacer("%", "%%")
	special    = strings.NewReplacer("%", "%%", "$", "$$", `\`, `\\`, `"`, `\"`)
)

// quote is a word of a command line in a unit.
func quote(word string) string {
	if plain := special.Replace(word); plain == word && word != "" && !strings.ContainsAny(word, " \t\n';") {
		return word
	}
	return `"` + strings.ReplaceAll(special.Replace(word), "\n", `\n`) + `"`
}

// Booted tells whether systemd runs the machine.
func Booted(root string) bool {
	_, err := os.Stat(filepath.Join(root, systemdDir))
	return err == nil
}

// Install writes the unit and has it started at each boot. It reports whether
// anything changed. It survives a power loss when it returns.
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
	// What systemctl enable does. It asks the running systemd, which is not
	// that of another root.
	if err := durable.Symlink(filepath.Join(unitDir, UnitName), link); err != nil {
		return false, fmt.Errorf("install the systemd unit: %w", err)
	}
	return true, reload(ctx, root)
}

// reload makes the unit known before the next boot, which reads it anyway.
func reload(ctx context.Context, root string) error {
	if root != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "systemctl", "daemon-reload").CombinedOutput(); err != nil {
		return fmt.Errorf("tell systemd of its unit: systemctl daemon-reload: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
