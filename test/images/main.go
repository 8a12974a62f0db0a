// Command images builds several versions of the node's images with its own Docker
// engine, and stores them in the storage directory of a registry:
//
//	images -to DIR -images "nova-libvirt nova-compute" VERSION...
//
// or keeps them in the data root of that engine, where machine.DockerImages and make cloud
// take them from:
//
//	images -engine DIR -images controller VERSION
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
	root := flag.String("engine", "", "data root that keeps the images, instead of a registry")
	images := flag.String("images", "", "names of images, separated by spaces; default: all")
	flag.Parse()
	if (*to == "") == (*root == "") || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: images -to DIR | -engine DIR [-images NAMES] VERSION...")
		os.Exit(2)
	}
	j := &job{}
	status := j.run(func() {
		if *root != "" {
			keep(j, *root, strings.Fields(*images), flag.Args())
			return
		}
		build(j, *to, strings.Fields(*images), flag.Args())
	})
	os.Exit(status)
}

// build fills dir.new and then replaces dir with it.
func build(j *job, dir string, images, versions []string) {
	fresh := dir + ".new"
	must(j, "remove the previous build", os.RemoveAll(fresh))
	engine := machine.Dockerd(j)
	registry := machine.NewRegistry(j, machine.RegistryDir(absolute(j, fresh)))
	for _, version := range versions {
		command(j, engine, script, append([]string{"--version", version, "--registry", registry.Addr, "--push"}, images...)...)
	}
	registry.Stop()
	must(j, "drop the old images", os.RemoveAll(dir))
	must(j, "keep the images", os.Rename(fresh, dir))
	j.Logf("%d images in %s: %d MB", len(versions)*len(images), dir, size(j, dir)/1e6)
}

// keep builds in an engine whose data stay. The engine keeps unchanged layers from one run
// to the next, and images that were replaced are removed.
func keep(j *job, dir string, images, versions []string) {
	must(j, "make the directory", os.MkdirAll(dir, 0o710))
	engine := machine.Dockerd(j, machine.DockerRoot(absolute(j, dir)))
	for _, version := range versions {
		command(j, engine, script, append([]string{"--version", version}, images...)...)
	}
	command(j, engine, "docker", "image", "prune", "--force")
	engine.Stop()
	j.Logf("%s in %s: %d MB", strings.Join(images, ", "), dir, size(j, dir)/1e6)
}

// command runs a program with an engine.
func command(j *job, engine *machine.Docker, name string, args ...string) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+engine.Socket)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	must(j, "run "+name+" "+strings.Join(args, " "), cmd.Run())
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
