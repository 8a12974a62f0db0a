// Package channel runs commands in a virtual machine over a virtio-serial port:
// no network, no login, and it works as soon as the machine has the port's
// device. Requests and answers are JSON, one a line.
//
// Either end may be cut off in the middle of a line when the machine loses its
// power, so every message begins a line of its own, and what cannot be read is
// skipped.
package channel

import (
	"bufio"
	"encoding/json"
	"io"
	"sync"
)

// Port is the port's name: the guest finds it as /dev/virtio-ports/NAME.
const Port = "org.kollet.test"

// Request asks for a command to be run. With no command, the answer tells that
// the machine is there.
type Request struct {
	ID    int      `json:"id"`
	Argv  []string `json:"argv,omitempty"`
	Stdin string   `json:"stdin,omitempty"`
}

// Answer tells how a command ended.
type Answer struct {
	ID     int    `json:"id"`
	Boot   string `json:"boot"` // changes with every boot
	Status int    `json:"status"`
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	Error  string `json:"error,omitempty"` // it could not be run
}

// writer writes messages that do not mix.
type writer struct {
	mu sync.Mutex
	to io.Writer
}

func (w *writer) write(message any) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.to.Write(append(append([]byte{'\n'}, data...), '\n'))
	return err
}

// read calls what with every message, until there is nothing more to read.
func read[M any](from io.Reader, what func(M)) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		var m M
		if json.Unmarshal(line, &m) == nil {
			what(m)
		}
	}
}
