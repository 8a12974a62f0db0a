package userdata

import (
	_ "embed" // the script
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// FirstBoot is the path of the script that runcmd runs.
const FirstBoot = "/var/lib/kollet/first-boot"

//go:embed first-boot.sh
var firstBootHead string

// Install says how to install kollet on an image that does not have it.
type Install struct {
	From   string // URL of the program or of a .deb, or name of a Debian package; "": the image has it
	SHA256 string // of the file at the URL
}

var (
	digest      = regexp.MustCompile(`^[0-9a-f]{64}$`)
	packageName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+)?$`)
)

// check returns what is wrong with the flags that set the fields.
func (i Install) check() error {
	switch {
	case i.From == "" && i.SHA256 == "":
		return nil
	case i.From == "":
		return fmt.Errorf("--sha256: needs --install with a URL")
	case !i.remote() && !packageName.MatchString(i.From):
		return fmt.Errorf("--install: expected a URL (http, https, file) or the name of a Debian package, got %q", i.From)
	case !i.remote() && i.SHA256 != "":
		return fmt.Errorf("--sha256: apt verifies the package %s itself; omit the flag", i.From)
	case i.remote() && !digest.MatchString(i.SHA256):
		return fmt.Errorf("--sha256: expected the SHA-256 of %s as 64 digits 0-9 and a-f, as sha256sum prints it", i.From)
	}
	return nil
}

func (i Install) remote() bool {
	u, err := url.Parse(i.From)
	return err == nil && (u.Scheme == "file" && u.Path != "" || (u.Scheme == "http" || u.Scheme == "https") && u.Host != "")
}

func (i Install) debian() bool {
	u, err := url.Parse(i.From)
	return err == nil && path.Ext(u.Path) == ".deb"
}

// script returns what the node runs at its first boot. It exits with the status of
// kollet bootstrap, which cloud-init reports as that of runcmd.
func (i Install) script(bootstrap []string) []byte {
	var b strings.Builder
	b.WriteString(firstBootHead)
	b.WriteString("if ! command -v kollet >/dev/null; then\n")
	switch {
	case i.From == "":
		b.WriteString("\techo 'kollet is not installed; create the user-data with --install, or use an image that has kollet' >&2\n\texit 127\n")
	case !i.remote():
		b.WriteString("\tapt-get -q update\n")
		fmt.Fprintf(&b, "\tDEBIAN_FRONTEND=noninteractive apt-get -q -y install %s\n", quote(i.From))
	case i.debian():
		fmt.Fprintf(&b, "\tfetch %s %s /var/lib/kollet/kollet.deb\n", quote(i.From), i.SHA256)
		b.WriteString("\tDEBIAN_FRONTEND=noninteractive apt-get -q -y install /var/lib/kollet/kollet.deb\n\trm /var/lib/kollet/kollet.deb\n")
	default:
		fmt.Fprintf(&b, "\tfetch %s %s /usr/local/bin/kollet\n\tchmod 0755 /usr/local/bin/kollet\n", quote(i.From), i.SHA256)
	}
	b.WriteString("fi\n\nexec kollet bootstrap")
	for _, a := range bootstrap {
		b.WriteString(" " + quote(a))
	}
	b.WriteString("\n")
	return []byte(b.String())
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+$`)

// quote quotes a word for a shell if necessary.
func quote(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
