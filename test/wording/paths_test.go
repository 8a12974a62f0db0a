package wording

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	quoted     = regexp.MustCompile("`([^`\n]+)`")
	pathName   = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)+/?$|^[\w-]+\.(go|md)$`)
	placed     = regexp.MustCompile("((?:`\\w+`(?:, | and | or |, and )?)+) (?:in|of) `([\\w/-]+\\.go)`")
	identifier = regexp.MustCompile(`^(\w+\.)?([a-z]+[A-Z]\w*|[A-Z]\w*[a-z]\w*)$`)
)

// docs/development.md leads through the code, so the files and Go names in it
// must exist.
func TestDevelopmentPageIsTrue(t *testing.T) {
	const page = "docs/development.md"
	text, err := os.ReadFile(filepath.Join(top, page))
	if err != nil {
		t.Fatal(err)
	}
	code := goCode(t)
	for _, m := range placed.FindAllStringSubmatch(string(text), -1) {
		file, err := os.ReadFile(filepath.Join(top, m[2]))
		for _, name := range quoted.FindAllStringSubmatch(m[1], -1) {
			if err == nil && !regexp.MustCompile(`\b`+name[1]+`\b`).Match(file) {
				t.Errorf("%s: %s does not contain %s", page, m[2], name[1])
			}
		}
	}
	var names int
	for i, line := range strings.Split(string(text), "\n") {
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			name := m[1]
			switch {
			case strings.HasPrefix(name, "bin/") || strings.Contains(name, "NAME"):
			case pathName.MatchString(name):
				names++
				if !exists(name) && !exists("agent/upgrade/"+name) && !exists("agent/plan/"+name) {
					t.Errorf("%s:%d: there is no %s", page, i+1, name)
				}
			case identifier.MatchString(name):
				names++
				word := regexp.MustCompile(`\b` + identifier.FindStringSubmatch(name)[2] + `\b`)
				if !word.Match(code) {
					t.Errorf("%s:%d: no Go file contains %s", page, i+1, name)
				}
			}
		}
	}
	if names < 50 {
		t.Errorf("found only %d names in %s", names, page)
	}
}

func exists(path string) bool {
	_, err := os.Stat(filepath.Join(top, path))
	return err == nil
}

// goCode returns the code of the product.
func goCode(t *testing.T) []byte {
	t.Helper()
	var code bytes.Buffer
	for _, dir := range []string{"agent", "cmd", "configs", "containers"} {
		err := filepath.WalkDir(filepath.Join(top, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			data, readErr := os.ReadFile(path)
			code.Write(data)
			return errors.Join(err, readErr)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return code.Bytes()
}
