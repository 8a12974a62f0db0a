// Command images builds several versions of the node's images with its own Docker
// engine, and stores them in the storage directory of a registry:
//
//	images -to DIR -images "nova-libvirt nova-compute" VERSION...
//
// A registry that uses DIR serves [REGISTRY/]kolla/IMAGE:VERSION. The engine's own data,
// which is three times as large, is removed at the end. Between two runs, the build script
// keeps the Debian base of all images.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kollet/kollet/test/machine"
)

const script = "containers/images/build.sh"

func main() {
	machine.Enter(machine.HostNetwork()) // to download packages
	to := flag.String("to", "", "storage directory of the registry; replaced after a successful build")
	images := flag.String("images", "", "names of images, separated by spaces; default: all")
	flag.Parse()
	if *to == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: images -to DIR [-images NAMES] VERSION...")
		os.Exit(2)
	}
	j := &job{}
	status := j.run(func() { build(j, *to, strings.Fields(*images), flag.Args()) })
	os.Exit(status)
}

// build fills dir.new and then replaces dir with it.
func build(j *job, dir string, images, versions []string) {
	fresh := dir + ".new"
	must(j, "remove the previous build", os.RemoveAll(fresh))
	engine := machine.Dockerd(j)
	registry := machine.NewRegistry(j, machine.RegistryDir(absolute(j, fresh)))
	for _, version := range versions {
		args := append([]string{"--version", version, "--registry", registry.Addr, "--push"}, images...)
		cmd := exec.Command(script, args...)
		cmd.Env = append(os.Environ(), "DOCKER_HOST="+engine.Socket)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		must(j, "build version "+version, cmd.Run())
	}
	registry.Stop()
	must(j, "drop the old images", os.RemoveAll(dir))
	must(j, "keep the images", os.Rename(fresh, dir))
	j.Logf("%d images in %s: %d MB", len(versions)*len(images), dir, size(j, dir)/1e6)
}

func absolute(j *job, path string) string {
	path, err := filepath.Abs(path)
	must(j, "find the directory", err)
	return path
}

func size(j *job, dir string) (bytes int64) {
	must(j, "measure the images", filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	}))
	return bytes
}

func must(j *job, doing string, err error) {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = errors.New("see above") // the script has printed the error
	}
	if err != nil {
		j.Fatalf("%s: %v", doing, err)
	}
}
