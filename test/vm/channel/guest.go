package channel

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"strings"
)

// Serve runs the commands of requests, concurrently, until reading fails. boot is the
// ID of this boot; each answer has it.
func Serve(port io.ReadWriter, boot string) error {
	w := &writer{to: port}
	return read(port, func(r Request) {
		go func() { _ = w.write(r.run(boot)) }() // if the port is gone, read fails
	})
}

func (r Request) run(boot string) Answer {
	a := Answer{ID: r.ID, Boot: boot}
	if len(r.Argv) == 0 {
		return a
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(r.Argv[0], r.Argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(r.Stdin), &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		a.Error = err.Error()
	}
	if cmd.ProcessState != nil {
		a.Status = cmd.ProcessState.ExitCode()
	}
	a.Stdout, a.Stderr = stdout.String(), stderr.String()
	return a
}
