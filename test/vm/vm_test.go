package vm

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/kollet/kollet/test/vm/channel"
)

// Limits after which a test fails. They are long because QEMU may emulate every
// instruction.
const (
	bootTime = 20 * time.Minute
	workTime = 30 * time.Minute
)

// hardware is the configuration of a virtual machine.
type hardware struct {
	memory int    // MiB
	disk   string // initial content of the machine's disk
	direct bool   // boot by kernel and ramdisk, with the disk as root file system
	seed   string // ISO image for cloud-init
	tools  string // file system image with the test's files
	outer  bool   // reach the loopback device of the test machine, as 10.0.2.2
}

// vm is a virtual machine.
type vm struct {
	t    testing.TB
	name string
	dir  string // its disk and logs
	args []string

	qemu   *exec.Cmd
	conn   net.Conn
	client *channel.Client
	boot   string    // ID of the last boot that was seen
	since  time.Time // power on
}

// newVM creates a machine without starting it. When the test ends, its disk is removed
// unless the test failed; the logs are kept.
func newVM(t testing.TB, name string, h hardware) *vm {
	t.Helper()
	m := &vm{t: t, name: name, dir: filepath.Join(built(t, "."), "vm", name)}
	check(t, os.RemoveAll(m.dir))
	check(t, os.MkdirAll(m.dir, 0o755))
	disk := filepath.Join(m.dir, "disk.qcow2")
	run(t, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", h.disk, disk, "10G")
	m.args = []string{
		"-name", name, "-accel", cmp.Or(os.Getenv("KOLLET_VM_ACCEL"), "tcg,thread=multi"), "-cpu", "max", "-smp", "2", "-m", fmt.Sprint(h.memory),
		"-nodefaults", "-display", "none", "-vga", "none", "-device", "virtio-rng-pci",
		"-chardev", "file,id=console,append=on,path=" + m.console(), "-serial", "chardev:console",
		"-netdev", "user,id=net0,restrict=" + map[bool]string{true: "off", false: "on"}[h.outer], "-device", "virtio-net-pci,netdev=net0,mac=52:54:00:4b:0c:01",
		"-device", "virtio-serial-pci", "-chardev", "socket,id=port,server=on,wait=off,path=" + m.socket(),
		"-device", "virtserialport,chardev=port,name=" + channel.Port,
	}
	m.drive("root", disk, "format=qcow2,discard=unmap")
	m.drive("seed", h.seed, "format=raw,read-only=on")
	m.drive("tools", h.tools, "format=raw,read-only=on")
	if h.direct {
		m.args = append(m.args, "-kernel", built(t, "node/vmlinuz"), "-initrd", built(t, "node/initrd"),
			"-append", "root=LABEL=node rw console=ttyS0,115200")
	}
	t.Cleanup(func() {
		m.powerLoss()
		if !t.Failed() {
			os.Remove(disk)
		}
	})
	return m
}

// drive adds a disk. With cache=writeback, data that the guest has not flushed may be
// lost when QEMU is killed, as on a real disk: the guest's page cache, and clusters
// that QEMU has not added to the tables of the qcow2 image.
func (m *vm) drive(serial, path, options string) {
	m.args = append(m.args, "-drive", fmt.Sprintf("if=none,id=%s,cache=writeback,file=%s,%s", serial, path, options),
		"-device", fmt.Sprintf("virtio-blk-pci,drive=%s,serial=%s", serial, serial))
}

func (m *vm) console() string { return filepath.Join(m.dir, "console.log") }

// socket has a short path, because paths of Unix sockets are limited to 108 bytes.
func (m *vm) socket() string { return "/run/" + m.name + ".sock" }

// powerOn starts the machine and waits until vmagent answers.
func (m *vm) powerOn() {
	m.t.Helper()
	log, err := os.OpenFile(filepath.Join(m.dir, "qemu.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	check(m.t, err)
	defer log.Close()
	m.qemu = exec.Command("qemu-system-x86_64", m.args...)
	m.qemu.Stdout, m.qemu.Stderr = log, log
	check(m.t, m.qemu.Start())
	m.since = time.Now()
	for {
		if m.conn, err = net.Dial("unix", m.socket()); err == nil {
			break
		}
		if time.Since(m.since) > 10*time.Second {
			text, _ := os.ReadFile(log.Name())
			m.t.Fatalf("start QEMU: %v\n%s", err, text)
		}
		time.Sleep(50 * time.Millisecond)
	}
	m.client = channel.NewClient(m.conn)
	m.booted()
}

// booted waits until vmagent answers from a new boot.
func (m *vm) booted() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), bootTime)
	defer cancel()
	boot, err := m.client.Await(ctx, m.boot)
	if err != nil {
		m.t.Fatalf("%v\n%s", err, m.lastLines())
	}
	m.boot = boot
	m.t.Logf("%s answers %.0f s after power on", m.name, time.Since(m.since).Seconds())
}

// powerLoss kills the machine, as a power loss does.
func (m *vm) powerLoss() {
	if m.qemu == nil {
		return
	}
	_ = m.qemu.Process.Kill()
	_ = m.qemu.Wait() // returns an error because QEMU was killed
	if m.conn != nil {
		m.conn.Close()
	}
	os.Remove(m.socket())
	m.qemu, m.client = nil, nil
}

// reboot reboots the machine with systemctl.
func (m *vm) reboot() {
	m.t.Helper()
	m.since = time.Now()
	m.must("systemctl", "reboot")
	m.booted()
}

func (m *vm) lastLines() string {
	text, _ := os.ReadFile(m.console())
	return fmt.Sprintf("--- end of %s:\n%s", m.console(), text[max(0, len(text)-4000):])
}

// try runs a command in the machine.
func (m *vm) try(limit time.Duration, argv ...string) (channel.Answer, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.t.Context()), limit) // also runs after the test, to save logs
	defer cancel()
	return m.client.Do(ctx, channel.Request{Argv: argv})
}

// do runs a command in the machine.
func (m *vm) do(argv ...string) channel.Answer {
	m.t.Helper()
	a, err := m.try(workTime, argv...)
	check(m.t, err)
	return a
}

// must runs a command in the machine and requires that it succeeds.
func (m *vm) must(argv ...string) string {
	m.t.Helper()
	a := m.do(argv...)
	if a.Status != 0 {
		m.t.Fatalf("%q: exit status %d\n%s%s", argv, a.Status, a.Stdout, a.Stderr)
	}
	return a.Stdout
}

// write writes a file in the machine and syncs it to disk.
func (m *vm) write(path, content string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), workTime)
	defer cancel()
	a, err := m.client.Do(ctx, channel.Request{Argv: []string{"sh", "-c", `cat >"$0" && sync "$0"`, path}, Stdin: content})
	if err != nil || a.Status != 0 {
		m.t.Fatalf("write %s: %v: %s", path, err, a.Stderr)
	}
}

// keep writes the output of a command in the machine to a log file.
func (m *vm) keep(log string, argv ...string) {
	a, err := m.try(time.Minute, argv...)
	text := a.Stdout + a.Stderr
	if err != nil {
		text += err.Error() + "\n"
	}
	_ = os.WriteFile(filepath.Join(m.dir, log), []byte(text), 0o644) // the test has failed already
}

// run runs a program outside the machine and requires that it succeeds.
func run(t testing.TB, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return string(out)
}
