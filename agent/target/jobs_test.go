package target

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/configs"
)

// virsh answers as that of libvirt 9.0 does for guests: one that migrates (a), one whose
// disk is copied (b), one that does nothing (c), one that exits after the first answer (d), one
// that a migration brings here (e), and one whose QEMU does not answer (f).
const virsh = `#!/bin/sh
[ "$1 $2" = "-c qemu:///system" ] || exit 9
shift 2
[ -z "$REFUSED" ] || { echo "error: failed to connect to the hypervisor" >&2; exit 1; }
if [ "$1" = list ]; then
  for guest in $GUESTS; do
    [ $guest = d ] && [ -e "$ASKED" ] || echo $guest
  done
  touch "$ASKED"
  exit
fi
status=0
IFS=';'
for command in $1; do
  IFS=' '
  set -- $command
  case "$1 $2 $3" in
    "  ") ;;
    echo*) shift; echo "$@" ;;
    "domjobinfo a ") printf 'Job type:         Unbounded   \nOperation:        Outgoing migration\nTime elapsed:     1200         ms\nDirty rate:       12           pages/s\n' ;;
    "domjobinfo b " | "domjobinfo c ") printf 'Job type:         None        \n\n' ;;
    "domblklist a "*) printf ' Target   Source\n------------------------\n vda      /var/lib/nova/instances/a/disk\n\n' ;;
    "domblklist b "*) printf ' Target   Source\n------------------------\n vda      /var/lib/nova/instances/b/my disk\n hda      -\n\n' ;;
    "domblklist c "*) printf ' Target   Source\n------------------------\n vda      /var/lib/nova/instances/c/disk\n vdb      rbd/volume\n\n' ;;
    "domjobinfo e "*) echo "error: Operation not supported: migration statistics are available only on the source host" >&2; status=1 ;;
    "domjobinfo f "*) echo "error: Timed out during operation: cannot acquire state change lock (held by monitor=remoteDispatchDomainSuspend)" >&2; status=1 ;;
    "domblklist e "* | "domblklist f "*) printf ' Target   Source\n------------------------\n vda      /var/lib/nova/instances/e/disk\n\n' ;;
    "blockjob b vda") printf ' type=Block Copy\n bandwidth=1024\n cur=10\n end=20\n\n' ;;
    "blockjob a vda" | "blockjob c vda" | "blockjob c vdb") echo ;;
    *) echo "error: failed to get domain '$2'" >&2; status=1 ;;
  esac
  IFS=';'
done
exit $status
`

// The profile's command prints a line for each job of libvirt, and nothing if there
// is none.
func TestJobsOfTheProfile(t *testing.T) {
	node, err := nodefile.Parse("node.yaml", []byte("images: {tag: a}\nvars: {rabbit_host: h, auth_url: none}\nsecrets: {rabbit_password: {env: R}}\n"), configs.Profile, nodefile.Change{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "virsh"), []byte(virsh), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		guests, refused string
		want            string
		fails           bool
	}{
		"no guest":         {want: ""},
		"idle":             {guests: "c", want: ""},
		"all":              {guests: "a b c d", want: "a Outgoing migration\nb Block Copy\n"},
		"incoming":         {guests: "c e", want: "e Incoming migration\n"},
		"hangs":            {guests: "f c", want: "f unknown, libvirt says: Timed out during operation: cannot acquire state change lock (held by monitor=remoteDispatchDomainSuspend)\n"},
		"only one left":    {guests: "d", want: ""},
		"more than a line": {guests: strings.Repeat("b ", 3000), want: strings.Repeat("b Block Copy\n", 3000)},
		"no answer at all": {guests: "a", refused: "1", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			jobs := node.Services["nova-libvirt"].Guests.Jobs
			cmd := exec.Command(jobs[0], jobs[1:]...)
			cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "GUESTS=" + c.guests, "REFUSED=" + c.refused, "ASKED=" + filepath.Join(t.TempDir(), "asked")}
			out, err := cmd.Output()
			if string(out) != c.want || (err != nil) != c.fails {
				t.Errorf("got %q, %v, want %q", out, err, c.want)
			}
		})
	}
}
