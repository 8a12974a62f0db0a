// Package logfile writes the output of a container to files of limited size, and
// reads it back. It uses the format of Kubernetes' container runtimes, which log
// collectors can read. A line is
//
//	2026-11-21T08:00:00.123456789Z stdout F TEXT
//
// with P instead of F if TEXT is an incomplete line that the next one continues, see
// https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md
//
// PATH is the newest file; PATH.1, PATH.2 and so on are older. Files are only
// appended to and renamed: if the writer dies, at most the last line is incomplete,
// and readers skip it.
package logfile

import (
	"bytes"
	"errors"
	"time"
)

// The output streams of a container.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// line is a line of a file.
type line struct {
	at      time.Time
	stream  string
	partial bool // the next line continues the text
	text    []byte
}

// stamp is RFC 3339 with nine digits of the second's fraction, so that times sort as
// text.
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

var errNotALine = errors.New("invalid line; expected TIME STREAM F|P TEXT")

// parse parses a line without its newline.
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
