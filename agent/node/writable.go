package node

import (
	"fmt"
	"os"
	"syscall"
)

// OthersWriteFile returns an error if others than root, or the user that runs kollet, can write
// the node file: they decide what runs as root. A file that cannot be looked at is left to
// who reads it.
func (n *Node) OthersWriteFile() error {
	path := n.NodeFilePath()
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	owner := int(st.Uid)
	if owner != 0 && owner != os.Geteuid() {
		return fmt.Errorf("others can write %s: it belongs to user %d; chown root %s", path, owner, path)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("others can write %s: its mode is %04o; chmod go-w %s", path, info.Mode().Perm(), path)
	}
	return nil
}
