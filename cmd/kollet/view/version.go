package view

import "strings"

// Version shows kollet's version and the formats that it reads.
type Version struct {
	Version  string      `json:"version"`
	Commit   string      `json:"commit,omitempty"`
	Go       string      `json:"go"`
	Platform string      `json:"platform"`
	Formats  FileFormats `json:"formats"`
}

// FileFormats are the numbers of the formats that this version of kollet reads.
type FileFormats struct {
	NodeFile   int `json:"node_file"`
	Journal    int `json:"journal"`
	Generation int `json:"generation"`
}

func (v Version) text(t *text) {
	parts := []string{v.Go, v.Platform}
	if v.Commit != "" {
		parts = append([]string{"commit " + v.Commit}, parts...)
	}
	t.line("kollet %s (%s)", v.Version, strings.Join(parts, ", "))
	t.line("formats: node file %d, journal %d, generation record %d", v.Formats.NodeFile, v.Formats.Journal, v.Formats.Generation)
}
