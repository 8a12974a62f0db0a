package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/cmd/kollet/view"
)

var (
	pulls   = []string{"missing", "always", "never"}
	formats = view.Formats
)

// aim is the flags that change what an upgrade aims at.
type aim struct {
	images images
	tag    string
	pull   choice
}

func (m *aim) add(cmd *cobra.Command) {
	m.images, m.pull.of = images{}, pulls
	f := cmd.Flags()
	f.Var(m.images, "image", "image of a service for this run, as `SERVICE=REF`; may be repeated")
	f.StringVar(&m.tag, "tag", "", "`TAG` of images that name none, for this run")
	f.Var(&m.pull, "pull", "which images to ask their registry for, for this run")
	complete(cmd, "pull", pulls)
}

func (m *aim) options() target.Options {
	return target.Options{Images: m.images, Tag: m.tag, Pull: m.pull.value}
}

// images is a flag that may be repeated: SERVICE=REF.
type images map[string]string

func (i images) Set(value string) error {
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

func (i images) String() string { return "" }
func (i images) Type() string   { return "SERVICE=REF" }

// choice is a flag with a few values.
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

// complete gives a shell the values of a flag.
func complete(cmd *cobra.Command, flag string, values []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag was added just before
	}
}
