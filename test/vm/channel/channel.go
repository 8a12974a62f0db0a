// Package channel runs commands in a virtual machine over a virtio-serial port. It
// needs neither network nor login, and works as soon as the guest has the port's
// device. Each request and each answer is one line of JSON.
//
// A power loss may cut off a message in the middle of a line. Each message therefore
// begins with a line break, and lines that are not valid are skipped.
package channel

import (
	"bufio"
	"encoding/json"
	"io"
	"sync"
)

// Port is the port's name. The device in the guest is /dev/virtio-ports/NAME.
const Port = "org.kollet.test"

// Request asks the guest to run a command. Without a command, the guest only answers.
type Request struct {
	ID    int      `json:"id"`
	Argv  []string `json:"argv,omitempty"`
	Stdin string   `json:"stdin,omitempty"`
}

// Answer is the result of a command.
type Answer struct {
	ID     int    `json:"id"`
	Boot   string `json:"boot"` // ID of the boot
	Status int    `json:"status"`
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	Error  string `json:"error,omitempty"` // the command could not be run
}

// writer writes messages one at a time.
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

// read calls handle with each message, until the end of the input or an error.
func read[M any](from io.Reader, handle func(M)) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		var m M
		if json.Unmarshal(line, &m) == nil {
			handle(m)
		}
	}
}
