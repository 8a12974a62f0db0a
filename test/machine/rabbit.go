package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Rabbit is a RabbitMQ that only the test uses, configured for OpenStack's services.
type Rabbit struct {
	Addr     string // 127.0.0.1:5672
	User     string // openstack, with all permissions in the virtual host /
	Password string

	d    *daemon
	bin  string // directory of RabbitMQ's scripts
	attr *syscall.SysProcAttr
	env  []string
}

// Connection is a client's connection as RabbitMQ reports it.
type Connection struct {
	User    string
	Name    string // connection_name, as the client calls itself; oslo.messaging: nova-compute:PID:UUID
	Product string // of the client's library
	Peer    string // address and port
	State   string // running, blocked, …
}

// NewRabbit starts RabbitMQ on 127.0.0.1:5672 and waits until it answers. It is stopped
// when the test ends. A machine can run one at a time. The password must consist of
// letters and digits.
func NewRabbit(t TB, password string) *Rabbit {
	t.Helper()
	// The program in the PATH is a wrapper that writes to /var/log.
	const bin = "/usr/lib/rabbitmq/bin"
	if _, err := os.Stat(bin + "/rabbitmq-server"); err != nil {
		t.Fatalf("find RabbitMQ: %v; install it with: make deps", err)
	}
	dir := Dir(t, "rabbit")
	uid, gid, err := ids("rabbitmq")
	if err == nil {
		err = os.Chown(dir, int(uid), int(gid))
	}
	if err != nil {
		t.Fatalf("change the owner of RabbitMQ's directory: %v", err)
	}
	r := &Rabbit{Addr: "127.0.0.1:5672", User: "openstack", Password: password, bin: bin}
	r.attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	config := dir + "/rabbitmq.conf"
	text := fmt.Sprintf("listeners.tcp.local = %s\ndefault_user = %s\ndefault_pass = %s\nlog.console = true\nlog.file = false\n",
		r.Addr, r.User, r.Password)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatalf("write RabbitMQ's configuration: %v", err)
	}
	r.env = []string{
		"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
		"HOME=" + dir, // the Erlang cookie
		"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_CONFIG_FILE=" + config,
		"RABBITMQ_NODENAME=rabbit@localhost", "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_MNESIA_BASE=" + dir + "/mnesia", "RABBITMQ_LOG_BASE=" + dir,
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + dir + "/enabled_plugins",
		"RABBITMQ_GENERATED_CONFIG_DIR=" + dir + "/generated",
		"RABBITMQ_PID_FILE=" + dir + "/pid",
		// The script executes Erlang instead of waiting for it.
		"RUNNING_UNDER_SYSTEMD=1",
		// Idle Erlang threads do not spin, erl(1).
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none +sbwtdcpu none +sbwtdio none",
	}
	r.d = &daemon{
		t: t, name: "rabbitmq-server", log: dir + "/rabbitmq.log",
		make:  func() *exec.Cmd { return r.script("rabbitmq-server") },
		probe: r.greet,
	}
	t.Cleanup(func() {
		r.Kill()
		killAll(func(pid int) bool { return command(pid) == "epmd" })
	})
	r.d.tellOnFailure()
	r.Start()
	return r
}

// script returns a command that runs one of RabbitMQ's scripts as its user, in its
// environment.
func (r *Rabbit) script(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(r.bin, name), args...)
	cmd.Env = r.env
	cmd.Dir = "/"
	attr := *r.attr
	cmd.SysProcAttr = &attr
	return cmd
}

// Start starts RabbitMQ again, with the same data. It does nothing if it is running.
func (r *Rabbit) Start() { r.d.t.Helper(); r.d.start() }

// Stop stops RabbitMQ as an operator would.
func (r *Rabbit) Stop() { r.d.t.Helper(); r.d.end(syscall.SIGTERM) }

// Kill kills RabbitMQ.
func (r *Rabbit) Kill() { r.d.t.Helper(); r.d.end(syscall.SIGKILL) }

// Freeze stops RabbitMQ's process without ending it: the kernel still accepts
// connections for it, and nothing answers.
func (r *Rabbit) Freeze() { r.d.t.Helper(); r.d.signal(syscall.SIGSTOP) }

// Thaw continues RabbitMQ after Freeze.
func (r *Rabbit) Thaw() { r.d.t.Helper(); r.d.signal(syscall.SIGCONT) }

// Log returns the path of RabbitMQ's log.
func (r *Rabbit) Log() string { return r.d.log }

// greet opens a connection like a client: AMQP 0-9-1, section 2.2.4. The server's first
// frame is a method, type 1.
func (r *Rabbit) greet(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", r.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if until, ok := ctx.Deadline(); ok {
		conn.SetDeadline(until)
	}
	if _, err := conn.Write([]byte("AMQP\x00\x00\x09\x01")); err != nil {
		return err
	}
	var frame [1]byte
	if _, err := conn.Read(frame[:]); err != nil {
		return err
	}
	if frame[0] != 1 {
		return errors.New("it does not speak AMQP 0-9-1")
	}
	return nil
}

// Connections returns the current connections.
func (r *Rabbit) Connections(t TB) []Connection {
	t.Helper()
	cmd := r.script("rabbitmqctl", "--quiet", "--formatter=json", "--node=rabbit@localhost",
		"list_connections", "user", "name", "state", "client_properties")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list RabbitMQ's connections: %v\n%s%s", err, out, stderr.String())
	}
	connections, err := parseConnections(out)
	if err != nil {
		t.Fatalf("read RabbitMQ's list of connections: %v\n%s", err, out)
	}
	return connections
}

func parseConnections(text []byte) ([]Connection, error) {
	var rows []struct {
		User   string  `json:"user"`
		Name   string  `json:"name"` // peer -> us
		State  string  `json:"state"`
		Client [][]any `json:"client_properties"` // each: name, type, value
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, err
	}
	connections := make([]Connection, len(rows))
	for i, row := range rows {
		peer, _, _ := strings.Cut(row.Name, " -> ")
		c := Connection{User: row.User, Peer: peer, State: row.State}
		for _, property := range row.Client {
			if len(property) != 3 {
				return nil, fmt.Errorf("property of a client is not three values: %v", property)
			}
			switch property[0] {
			case "connection_name":
				c.Name, _ = property[2].(string)
			case "product":
				c.Product, _ = property[2].(string)
			}
		}
		connections[i] = c
	}
	return connections, nil
}

// ids returns the ids of a user and its group.
func ids(name string) (uid, gid uint32, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, err
	}
	id, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return 0, 0, err
	}
	group, err := strconv.ParseUint(u.Gid, 10, 32)
	return uint32(id), uint32(group), err
}
