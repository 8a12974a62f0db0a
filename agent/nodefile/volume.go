package nodefile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/kollet/kollet/configs/kolla"
	"github.com/kollet/kollet/configs/report"
)

var volumeType = reflect.TypeFor[Volume]()

var propagations = []string{"private", "rprivate", "slave", "rslave", "shared", "rshared"}

// UnmarshalYAML accepts the short form as well as the mapping.
func (m *Volume) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		short, err := parseVolume(n.Value)
		if err != nil {
			return err
		}
		*m = short
		return nil
	}
	type plain Volume
	return n.Decode((*plain)(m))
}

// parseVolume reads SOURCE:TARGET[:OPTION,…], or TARGET alone for a tmpfs.
func parseVolume(text string) (Volume, error) {
	parts := strings.Split(text, ":")
	var m Volume
	switch len(parts) {
	case 1:
		m.Target = parts[0]
	case 2, 3:
		m.Source, m.Target = parts[0], parts[1]
	default:
		return m, fmt.Errorf("expected SOURCE:TARGET[:OPTIONS], got %q", text)
	}
	if !strings.HasPrefix(m.Target, "/") || len(parts) > 1 && m.Source == "" {
		return m, fmt.Errorf("expected SOURCE:TARGET[:OPTIONS] with a source and an absolute target, got %q", text)
	}
	if len(parts) < 3 {
		return m, nil
	}
	for option := range strings.SplitSeq(parts[2], ",") {
		switch {
		case option == "ro":
			m.ReadOnly = true
		case option == "rw":
		case slices.Contains(propagations, option):
			m.Propagation = option
		default:
			return m, fmt.Errorf("unknown mount option %q in %q; expected ro, rw or one of %s", option, text, strings.Join(propagations, ", "))
		}
	}
	return m, nil
}

// Bytes returns the size of a tmpfs, 0 if it has none.
func (m Volume) Bytes() (int64, error) {
	if m.Size == "" {
		return 0, nil
	}
	return inBytes(m.Size, "64m")
}

func (m Volume) validateTmpfs(problems *report.Problems) {
	if m.Source != "" && m.Size+m.Mode != "" {
		problems.Addf(m.Place, m.Key, "only a tmpfs, which has no source, has a size and a mode")
	}
	if size, err := m.Bytes(); err != nil {
		problems.Addf(m.Place, m.Key+".size", "%v", err)
	} else if m.Size != "" && size == 0 {
		problems.Addf(m.Place, m.Key+".size", "expected a size such as 64m, got %q", m.Size)
	}
	if m.Mode != "" && !kolla.IsPerm(m.Mode) {
		problems.Addf(m.Place, m.Key+".mode", "expected four octal digits, such as \"0755\", got %q", m.Mode)
	}
}
