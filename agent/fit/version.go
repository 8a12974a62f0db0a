package fit

import (
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
)

var versionNumber = regexp.MustCompile(`\b\d{1,6}(\.\d{1,6}){1,3}\b`)

// Version finds the first version number in a text, such as that in
// libvirtd (libvirt) 9.0.0. It returns "" if there is none.
func Version(text string) string { return versionNumber.FindString(text) }

// Older reports whether version a is older than version b. A number that is
// missing at the end counts as 0.
func Older(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		if x, y := number(as, i), number(bs, i); x != y {
			return x < y
		}
	}
	return false
}

func number(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	n, _ := strconv.Atoi(parts[i])
	return n
}

// banner is how QEMU begins what it prints for --version: the version, and the
// distribution's package in parentheses. It is a constant of the program (QEMU:
// system/vl.c, version).
var banner = regexp.MustCompile(`QEMU emulator version (\d{1,6}(?:\.\d{1,6}){1,3}(?: \([ -~]{1,80}\))?)[\n\x00,]`)

// maxBanner is more than the longest text that banner matches.
const maxBanner = 256

// maxProgram bounds how much of a program is read.
const maxProgram = 256 << 20

var errNoVersion = errors.New("it does not contain QEMU's version")

// QEMUVersion finds QEMU's version, with the distribution's package, in a program
// or in what the program prints. A process that runs from a container that has
// been stopped can only be asked in this way: its program cannot be executed.
func QEMUVersion(program io.Reader) (string, error) {
	program = io.LimitReader(program, maxProgram)
	buffer := make([]byte, 0, 1<<20)
	for {
		n, err := io.ReadFull(program, buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		if found := banner.FindSubmatch(buffer); found != nil {
			return string(found[1]), nil
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return "", errNoVersion
		}
		if err != nil {
			return "", err
		}
		buffer = append(buffer[:0], buffer[len(buffer)-maxBanner:]...)
	}
}
