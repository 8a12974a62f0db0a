package userdata

import (
	_ "embed" // the script
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// FirstBoot is where the script is that runcmd starts.
const FirstBoot = "/var/lib/kollet/first-boot"

//go:embed first-boot.sh
var firstBootHead string

// Install says where kollet comes from on an image that lacks it.
type Install struct {
	From   string // URL of the program or of a .deb, or name of a Debian package; "": the image has it
	SHA256 string // of what a URL gives
}

var (
	digest      = regexp.MustCompile(`^[0-9a-f]{64}$`)
	packageName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+)?$`)
)

// check tells what is wrong with the flags that the fields come from.
func (i Install) check() error {
	switch {
	case i.From == "" && i.SHA256 == "":
		return nil
	case i.From == "":
		return fmt.Errorf("--sha256: it is of what --install names, and that is missing")
	case !i.remote() && !packageName.MatchString(i.From):
		return fmt.Errorf("--install: expected a URL (http, https, file) or the name of a Debian package, got %q", i.From)
	case !i.remote() && i.SHA256 != "":
		return fmt.Errorf("--sha256: apt checks the package %s itself; leave it out", i.From)
	case i.remote() && !digest.MatchString(i.SHA256):
		return fmt.Errorf("--sha256: expected the SHA-256 of what is at %s, 64 digits of 0-9 and a-f; `sha256sum` prints it", i.From)
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

// script is what the node runs at its first boot: it ends as bootstrap does,
// and so does runcmd, which is how cloud-init learns of a failure.
func (i Install) script(bootstrap []string) []byte {
	var b strings.Builder
	b.WriteString(firstBootHead)
	b.WriteString("if ! command -v kollet >/dev/null; then\n")
	switch {
	case i.From == "":
		b.WriteString("\techo 'kollet is not on this image; make the user-data with --install, or use an image that has it' >&2\n\texit 127\n")
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

// quote makes a word of a shell's command line.
func quote(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
