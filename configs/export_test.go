package configs

import "slices"

// Helpers returns the names of the functions that templates have from sprig.
func Helpers() []string { return slices.Clone(helpers) }

// Selectors returns the names of the functions that make no text of a secret.
func Selectors() []string { return slices.Clone(selectors) }

// Builtins returns the names of the functions of text/template that make a text.
func Builtins() []string { return sorted(builtins) }

// Builtin returns the text of a built-in template.
func Builtin(name string) ([]byte, error) { return builtin(name) }
