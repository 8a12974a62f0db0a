package configs

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed profiles/*.yaml templates/*.tmpl
var embedded embed.FS

// Profiles returns the names of the built-in profiles.
func Profiles() []string { return names("profiles", ".yaml") }

// Profile returns a built-in profile: a part of a node file with the defaults of
// variables, the services, and the services of each network.
func Profile(name string) ([]byte, error) {
	body, err := fs.ReadFile(embedded, path.Join("profiles", name+".yaml"))
	if err != nil {
		return nil, fmt.Errorf("there is no profile %q; expected %s, or none", name, strings.Join(Profiles(), ", "))
	}
	return body, nil
}

// Templates returns the names of the built-in templates.
func Templates() []string { return names("templates", ".tmpl") }

func builtin(name string) ([]byte, error) {
	return fs.ReadFile(embedded, path.Join("templates", name+".tmpl"))
}

func names(dir, ext string) []string {
	entries, err := fs.ReadDir(embedded, dir)
	if err != nil {
		panic(err) // embedded above
	}
	var found []string
	for _, entry := range entries {
		found = append(found, strings.TrimSuffix(entry.Name(), ext))
	}
	return found
}
