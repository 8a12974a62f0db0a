// Package configs renders a node's configuration: it executes templates, lays
// the operator's fragments over the result, and keeps secrets out of everything
// but the rendered files. It also holds the built-in profiles. It knows no
// engine and no generations.
package configs

// Inputs is what templates may use, and where the operator's files are.
type Inputs struct {
	Host      string            // name of this node, as {host} in override paths and .host in templates
	Vars      map[string]any    // .vars
	Secrets   map[string]string // secret "NAME"
	Instance  map[string]any    // .instance: what cloud-init knows of this machine; may be empty
	Templates string            // directory of the operator's templates; need not exist
	Overrides string            // directory of the operator's fragments; need not exist
}

// File is one file to render. Exactly one of Template, Source and Content is set.
type File struct {
	Where     string // key in the node file, for errors: services.nova-compute.config[0]
	Template  string // name of a built-in template, or of a file below Inputs.Templates, which wins
	Source    string // path on this machine, copied as it is
	Content   string // a template, inline
	Name      string // file name in the generation, unique within its service
	Format    string // "ini": overrides are merged key by key; "text": the last override replaces the whole file
	Overrides []string
	Optional  bool // left out when it renders to white space
}

// Rendered is a rendered file.
type Rendered struct {
	Content []byte
	// Public is the same file with every secret replaced by its name, and with
	// the values of keys that hold passwords masked: what diffs may show.
	Public  []byte
	Omitted bool // an Optional file that rendered to nothing
}
