// Package logfile keeps what a container prints in files of limited size, and
// reads it back. The format is the one that Kubernetes' container runtimes
// share, so that log collectors know it: a line is
//
//	2026-11-21T08:00:00.123456789Z stdout F what was printed
//
// with P instead of F for a piece whose line goes on, see
// https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md
//
// The file PATH is the newest; PATH.1, PATH.2, … are older. A file is only ever
// appended to and renamed: whenever the writer dies, at most its last line is
// torn, and a reader drops that.
package logfile

import (
	"bytes"
	"errors"
	"time"
)

// Streams of a container.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// line is one line of a file.
type line struct {
	at      time.Time
	stream  string
	partial bool // the line that was printed goes on
	text    []byte
}

// stamp is RFC 3339 with all nine digits, so that times sort as text.
const stamp = "2006-01-02T15:04:05.000000000Z"

func (l line) append(to []byte) []byte {
	to = l.at.UTC().AppendFormat(to, stamp)
	to = append(to, ' ')
	to = append(to, l.stream...)
	tag := " F "
	if l.partial {
		tag = " P "
	}
	to = append(to, tag...)
	to = append(to, l.text...)
	return append(to, '\n')
}

var errNotALine = errors.New("not a line of a log file: expected TIME STREAM F|P TEXT")

// parse reads a line, without the newline at its end.
func parse(in []byte) (line, error) {
	at, rest, ok := bytes.Cut(in, []byte(" "))
	if !ok {
		return line{}, errNotALine
	}
	stream, rest, ok := bytes.Cut(rest, []byte(" "))
	if !ok || (string(stream) != Stdout && string(stream) != Stderr) {
		return line{}, errNotALine
	}
	tag, text, ok := bytes.Cut(rest, []byte(" "))
	if !ok || (string(tag) != "F" && string(tag) != "P") {
		return line{}, errNotALine
	}
	t, err := time.Parse(time.RFC3339Nano, string(at))
	if err != nil {
		return line{}, errNotALine
	}
	return line{at: t, stream: string(stream), partial: string(tag) == "P", text: text}, nil
}
