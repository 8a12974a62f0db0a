// Package fit decides whether the libvirt and QEMU of an image can take over the
// guests that run: adopt them, and later start them again or migrate them. What a
// guest needs is read from its command line, what an image offers from the answers
// of its programs. The package runs nothing itself.
package fit

import (
	"fmt"
	"slices"
	"strings"
)

// Offer is what a QEMU program offers, in its own words.
type Offer struct {
	Machines []string // machine types, with their aliases
	Models   []string // CPU models
	Flags    []string // features of CPUs
}

// Missing returns what a guest needs and a QEMU program does not offer, each as
// the end of a sentence that begins with the program. A feature counts if the
// program that runs now, if known, has it: -cpu also takes properties that no
// program lists.
func (n Needs) Missing(offer, running Offer) []string {
	var missing []string
	if n.Machine != "" && len(offer.Machines) > 0 && !slices.Contains(offer.Machines, n.Machine) {
		missing = append(missing, "no machine type "+n.Machine)
	}
	if n.Model != "" && len(offer.Models) > 0 && !slices.Contains(offer.Models, n.Model) {
		missing = append(missing, "no CPU model "+n.Model)
	}
	var flags []string
	for _, flag := range n.Flags {
		if len(offer.Flags) > 0 && slices.Contains(running.Flags, flag) && !slices.Contains(offer.Flags, flag) {
			flags = append(flags, flag)
		}
	}
	if len(flags) > 0 {
		missing = append(missing, "no CPU feature "+strings.Join(flags, ", "))
	}
	return missing
}

// Findings collects what does not fit, with the guests that are concerned.
type Findings struct {
	order  []string
	guests map[string][]string
}

// Add adds a finding about a guest.
func (f *Findings) Add(finding, guest string) {
	if f.guests == nil {
		f.guests = map[string][]string{}
	}
	if _, known := f.guests[finding]; !known {
		f.order = append(f.order, finding)
	}
	f.guests[finding] = append(f.guests[finding], guest)
}

// shown is how many guests a finding names.
const shown = 3

// String is one sentence with all findings, or "".
func (f *Findings) String() string {
	var parts []string
	for _, finding := range f.order {
		guests := f.guests[finding]
		names := strings.Join(guests[:min(len(guests), shown)], ", ")
		if more := len(guests) - shown; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		word := "guest"
		if len(guests) > 1 {
			word = "guests"
		}
		parts = append(parts, fmt.Sprintf("%s, needed by %s %s", finding, word, names))
	}
	return strings.Join(parts, "; ")
}
