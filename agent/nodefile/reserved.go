package nodefile

import (
	"path"
	"strings"

	"github.com/kollet/kollet/agent/gate"
)

// Reserved returns the directory of kollet's own that a path in a container is, or lies
// below; empty if there is none. A file or mount there could open the container's gate, or
// replace the description of its configuration.
func Reserved(at string) string {
	for _, dir := range []string{gate.Home, gate.Config} {
		if at = path.Clean(at); at == dir || strings.HasPrefix(at, dir+"/") {
			return dir
		}
	}
	return ""
}

// reservedText is what a problem says of a path that Reserved refuses.
const reservedText = "%s is kollet's own in every container; expected a path outside of it, got %q"

// changesGate reports whether a permission is set on something of kollet's own. Its path
// may be a pattern.
func (p Permission) changesGate() bool {
	at := path.Clean(p.Path)
	if at == "/" {
		return p.Recurse
	}
	first, _, _ := strings.Cut(at[1:], "/")
	home := path.Base(gate.Home)
	if strings.HasPrefix(first, ".") { // a pattern matches no leading dot otherwise
		matches, err := path.Match(strings.ReplaceAll(first, "[!", "[^"), home)
		return matches || err != nil || first == home
	}
	return false
}
