package bench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/tiny/image"
)

// benched is what the tiny service's program is called here: the kernel's tracer
// sees the whole machine, where other tests may run tiny services too.
const benched = "benched"

// tinyProgram writes the tiny service's program into a file.
func tinyProgram(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), benched)
	check(b, os.WriteFile(path, image.Program(b), 0o755))
	return path
}

const repository = "bench/tiny"

// imageOf is the reference of an image of the tiny service.
func imageOf(r *machine.Registry, tag string) string { return r.Addr + "/" + repository + ":" + tag }

// tinyRegistry has both versions of the tiny service.
func tinyRegistry(b *testing.B) *machine.Registry {
	b.Helper()
	r := machine.NewRegistry(b)
	for _, tag := range []string{oldTag, newTag} {
		image.Image{Tag: tag, Program: benched}.Push(b, r.Addr, repository)
	}
	return r
}
