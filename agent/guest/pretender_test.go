package guest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/host"
)

// A process that looks like a guest of this node, above whose gate it has mounted a file system
// of FUSE that never answers. Any user can do so in namespaces of his own.
const pretender = `
mount -t tmpfs none "$1"
mkdir -p "$1"/upper "$1"/work "$1"/root "$1"/state/generations/000003/nova-libvirt/gate
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" none "$1/root"
mkdir -p "$1/root$2"
mount --bind "$1"/state/generations/000003/nova-libvirt/gate "$1/root$2"
mknod "$1"/fuse c 10 229
exec 9<>"$1"/fuse
mount -i -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0 none "$1/root${2%/*}"
exec chroot "$1/root" bash -c 'exec -a qemu-system-x86_64 sh -c "echo runs; read line" qemu -name guest=a -uuid u'
`

func TestPretenderWhoseFileSystemNeverAnswers(t *testing.T) {
	if known, err := os.ReadFile("/proc/filesystems"); err != nil || !strings.Contains(string(known), "\tfuse\n") {
		t.Skipf("the kernel has no FUSE, so nobody can do this: %v", err)
	}
	dir := t.TempDir()
	cmd := exec.Command("unshare", "--mount", "bash", "-ec", pretender, "pretender", dir, gate.Dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := stdout.Read(make([]byte, 5)); err != nil {
		t.Fatalf("the pretender does not run: %v", err)
	}
	n := newNode(t)
	found := make(chan error, 1)
	go func() {
		f := Finder{Host: host.Real(), Generations: n.Generations}
		guests, err := f.Among([]int{cmd.Process.Pid})
		if len(guests) > 0 {
			t.Errorf("got %v", guests)
		}
		found <- err
	}()
	select {
	case err := <-found:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it is looked at without end")
	}
}
