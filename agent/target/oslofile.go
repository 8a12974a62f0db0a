package target

import "github.com/kollet/kollet/configs"

// OsloFile is a config file that a service reads with oslo.config.
type OsloFile struct {
	Service    string
	Path       string   // in the container
	Namespaces []string // of the options that it may have

	Explain func() (configs.Explanation, error)
}

// Origin says in parentheses where an option comes from; it is empty if that is not known.
func (f OsloFile) Origin(section, key string) string {
	if f.Explain == nil {
		return ""
	}
	explanation, err := f.Explain()
	if err != nil {
		return "" // the file was rendered: only people cannot be shown where from
	}
	at, ok := explanation.Find(section, key)
	if !ok {
		return ""
	}
	return " (" + at.Origin.String() + ")"
}
