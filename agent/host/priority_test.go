package host

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

func policyOf(t *testing.T, pid int) uint32 {
	t.Helper()
	attr, err := unix.SchedGetAttr(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	return attr.Policy
}

func TestDeprioritizeAndRestore(t *testing.T) {
	cmd := exec.Command("sh", "-c", "read go; sleep 1000 & echo $!; wait")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	})
	pid := cmd.Process.Pid
	if err := unix.Setpriority(unix.PRIO_PROCESS, pid, 3); err != nil {
		t.Fatal(err)
	}
	if err := Real().Deprioritize(pid); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 32)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	child := 0
	for _, c := range line[:n-1] {
		child = child*10 + int(c-'0')
	}
	for _, p := range []int{pid, child} {
		if got := policyOf(t, p); got != schedIdle {
			t.Errorf("process %d has policy %d", p, got)
		}
	}
	if err := Real().Restore(pid); err != nil {
		t.Fatal(err)
	}
	attr, err := unix.SchedGetAttr(pid, 0)
	if err != nil || attr.Policy != schedOther || attr.Nice != 3 {
		t.Errorf("%+v, %v: want the original priority", attr, err)
	}
}

func TestDeprioritizeExited(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	for _, do := range []func(int) error{Real().Deprioritize, Real().Restore} {
		if err := do(cmd.Process.Pid); err != nil {
			t.Error(err)
		}
	}
}

func TestRunUrgent(t *testing.T) {
	tid, inside := 0, 0
	before, err := unix.SchedGetAttr(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	err = RunUrgent(func() error {
		tid = unix.Gettid()
		attr, err := unix.SchedGetAttr(tid, 0)
		if err != nil {
			return err
		}
		inside = int(attr.Nice)
		return os.ErrClosed
	})
	if err != os.ErrClosed || inside != -20 {
		t.Errorf("nice %d, %v", inside, err)
	}
	after, err := unix.SchedGetAttr(tid, 0)
	if err != nil || after.Nice != before.Nice {
		t.Errorf("left at nice %d, %v", after.Nice, err)
	}
}
