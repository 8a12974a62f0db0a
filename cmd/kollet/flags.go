package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent/target"
)

var pullPolicies = []string{"missing", "always", "never"}

// targetFlags are the flags that change an upgrade's target.
type targetFlags struct {
	images imageFlag
	tag    string
	pull   choice

	dropTag    bool
	dropImages []string
}

func (m *targetFlags) add(cmd *cobra.Command) {
	const until = ", until the node file has the same or an upgrade is run with --drop-"
	m.addImages(cmd, until+"image", until+"tag")
	m.pull.of = pullPolicies
	cmd.Flags().Var(&m.pull, "pull", "when to pull images, for this run (default: images.pull_policy)")
	complete(cmd, "pull", pullPolicies)
}

// addImages adds --image and --tag, with how long the image and the tag are kept.
func (m *targetFlags) addImages(cmd *cobra.Command, image, tag string) {
	m.images = imageFlag{}
	f := cmd.Flags()
	f.Var(m.images, "image", "image of a service, as `SERVICE=REF`"+image+"; can be repeated")
	f.StringVar(&m.tag, "tag", "", "`TAG` for images without one"+tag)
}

// addDrops adds the flags that take back what --image and --tag gave to an earlier upgrade.
func (m *targetFlags) addDrops(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&m.dropImages, "drop-image", nil, "return to the node file's image of a `SERVICE`; can be repeated")
	f.BoolVar(&m.dropTag, "drop-tag", false, "return to images.tag of the node file")
}

func (m *targetFlags) options() target.Options {
	return target.Options{Images: m.images, Tag: m.tag, Pull: m.pull.value, DropTag: m.dropTag, DropImages: m.dropImages}
}

// gapHelp explains the columns of a gap.
const gapHelp = `

ENDED, OPENED and HEALTHY are a service's gap, in milliseconds after its old task was
told to stop: when that task had ended, when the gate of the new one was opened, and when
all of its probes had passed.`

// imageFlag is a flag SERVICE=REF that can be repeated.
type imageFlag map[string]string

func (i imageFlag) Set(value string) error {
	service, ref, ok := strings.Cut(value, "=")
	if !ok || service == "" || ref == "" {
		return fmt.Errorf("expected SERVICE=REF, such as nova-compute=registry:5000/kolla/nova-compute:26.2.2")
	}
	if _, twice := i[service]; twice {
		return fmt.Errorf("%s is given twice", service)
	}
	i[service] = ref
	return nil
}

func (i imageFlag) String() string { return "" }
func (i imageFlag) Type() string   { return "SERVICE=REF" }

// choice is a flag with a fixed set of values.
type choice struct {
	value string
	of    []string
}

func (c *choice) Set(value string) error {
	if !slices.Contains(c.of, value) {
		return fmt.Errorf("expected one of %s", strings.Join(c.of, ", "))
	}
	c.value = value
	return nil
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.of, "|") }

// complete registers the values of a flag for shell completion.
func complete(cmd *cobra.Command, flag string, values []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag was added just before
	}
}
