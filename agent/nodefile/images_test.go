package nodefile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/nodefile"
)

func TestComplete(t *testing.T) {
	const digest = "@sha256:0123456789012345678901234567890123456789012345678901234567890123"
	full := nodefile.Images{Registry: "reg:5000/kolla", Tag: "v1"}
	for _, c := range []struct {
		images      nodefile.Images
		image, want string
	}{
		{full, "nova", "reg:5000/kolla/nova:v1"},
		{full, "nova:2", "reg:5000/kolla/nova:2"},
		{full, "nova" + digest, "reg:5000/kolla/nova" + digest},
		{full, "nova:2" + digest, "reg:5000/kolla/nova:2" + digest},
		{full, "other/nova", "other/nova:v1"},
		{full, "other:5000/nova", "other:5000/nova:v1"},
		{full, "other:5000/nova:2", "other:5000/nova:2"},
		{full, "other/nova" + digest, "other/nova" + digest},
		{full, "nova@", "reg:5000/kolla/nova@"}, // so that the check sees the mistake
		{nodefile.Images{Registry: "reg/", Tag: "v1"}, "nova", "reg/nova:v1"},
		{nodefile.Images{Registry: "reg"}, "nova", "reg/nova"},
		{nodefile.Images{Tag: "v1"}, "nova", "nova:v1"},
		{nodefile.Images{}, "nova", "nova"},
	} {
		if got := c.images.Complete(c.image); got != c.want {
			t.Errorf("%+v: %s is %s, want %s", c.images, c.image, got, c.want)
		}
	}
}

// What a change replaces is known, so that users can be told.
func TestChangeInsteadOf(t *testing.T) {
	for name, c := range map[string]struct {
		images string
		change nodefile.Change
		want   string
	}{
		"none":         {"tag: v1", nodefile.Change{}, ""},
		"tag":          {"tag: v1", nodefile.Change{Tag: "v2"}, "a:v1"},
		"the same tag": {"tag: v1", nodefile.Change{Tag: "v1"}, ""},
		"image":        {"tag: v1", nodefile.Change{Images: map[string]string{"aa": "x:3"}}, "a:v1"},
		"no tag yet":   {"registry: ''", nodefile.Change{Tag: "v2"}, ""},
	} {
		text := "profile: none\nimages: {" + c.images + "}\nservices:\n  aa: {image: a}\n"
		node, err := nodefile.Parse("node.yaml", []byte(text), profiles, c.change)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := node.Services["aa"].InsteadOf; got != c.want {
			t.Errorf("%s: instead of %q, want %q", name, got, c.want)
		}
	}
}

func TestChange(t *testing.T) {
	text := []byte("profile: none\nimages: {registry: reg, tag: v1}\nservices:\n  aa: {image: a}\n  bb: {image: 'b:1'}\n  cc: {image: c, disabled: true}\n")
	for name, c := range map[string]struct {
		change     nodefile.Change
		a, b, pull string
		problem    string
	}{
		"none":       {nodefile.Change{}, "reg/a:v1", "reg/b:1", "missing", ""},
		"tag":        {nodefile.Change{Tag: "v2"}, "reg/a:v2", "reg/b:1", "missing", ""},
		"pull":       {nodefile.Change{PullPolicy: "always"}, "reg/a:v1", "reg/b:1", "always", ""},
		"image":      {nodefile.Change{Images: map[string]string{"bb": "other/x"}}, "reg/a:v1", "other/x:v1", "missing", ""},
		"bad pull":   {nodefile.Change{PullPolicy: "often"}, "", "", "", `node.yaml:2:1: images.pull_policy: expected one of missing, always, never, got "often"`},
		"no service": {nodefile.Change{Images: map[string]string{"aaa": "x"}}, "", "", "", `--image aaa=…: the node has no service "aaa"; did you mean aa?`},
		"bad image":  {nodefile.Change{Images: map[string]string{"aa": "X"}}, "", "", "", `node.yaml:4:8: services.aa.image: "reg/X:v1" is not an image reference`},
	} {
		t.Run(name, func(t *testing.T) {
			node, err := nodefile.Parse("node.yaml", text, profiles, c.change)
			if c.problem != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.problem) {
					t.Errorf("got %v, want %s", err, c.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if a, b := node.Services["aa"].Image, node.Services["bb"].Image; a != c.a || b != c.b || node.Images.PullPolicy != c.pull {
				t.Errorf("got %s, %s, %s", a, b, node.Images.PullPolicy)
			}
		})
	}
}

// A node keeps what an operator gave until it is dropped or the node file says the same.
func TestHotfix(t *testing.T) {
	const file = "profile: none\nimages: {registry: reg, tag: v1}\nservices:\n  aa: {image: a}\n  bb: {image: 'b:1'}\n  cc: {image: c, disabled: true}\n"
	kept := nodefile.Hotfix{Tag: "v2", Images: map[string]string{"bb": "b:hot", "cc": "c:hot", "dd": "d:hot"}}
	for name, c := range map[string]struct {
		change nodefile.Change
		a, b   string
		want   nodefile.Hotfix
	}{
		"none":             {nodefile.Change{}, "reg/a:v1", "reg/b:1", nodefile.Hotfix{}},
		"given":            {nodefile.Change{Tag: "v3", Images: map[string]string{"bb": "x/b"}}, "reg/a:v3", "x/b:v3", nodefile.Hotfix{Tag: "v3", Images: map[string]string{"bb": "x/b"}}},
		"given as it is":   {nodefile.Change{Tag: "v1", Images: map[string]string{"bb": "reg/b:1"}}, "reg/a:v1", "reg/b:1", nodefile.Hotfix{}},
		"kept":             {nodefile.Change{Kept: kept}, "reg/a:v2", "reg/b:hot", nodefile.Hotfix{Tag: "v2", Images: map[string]string{"bb": "b:hot"}}},
		"kept beside":      {nodefile.Change{Kept: kept, Tag: "v3"}, "reg/a:v3", "reg/b:hot", nodefile.Hotfix{Tag: "v3", Images: map[string]string{"bb": "b:hot"}}},
		"given again":      {nodefile.Change{Kept: kept, Images: map[string]string{"bb": "b:hotter"}}, "reg/a:v2", "reg/b:hotter", nodefile.Hotfix{Tag: "v2", Images: map[string]string{"bb": "b:hotter"}}},
		"given back":       {nodefile.Change{Kept: kept, Images: map[string]string{"bb": "b:1"}}, "reg/a:v2", "reg/b:1", nodefile.Hotfix{Tag: "v2"}},
		"tag dropped":      {nodefile.Change{Kept: kept, DropTag: true}, "reg/a:v1", "reg/b:hot", nodefile.Hotfix{Images: map[string]string{"bb": "b:hot"}}},
		"image dropped":    {nodefile.Change{Kept: kept, DropImages: []string{"bb"}}, "reg/a:v2", "reg/b:1", nodefile.Hotfix{Tag: "v2"}},
		"service gone":     {nodefile.Change{Kept: kept, DropImages: []string{"dd"}}, "reg/a:v2", "reg/b:hot", nodefile.Hotfix{Tag: "v2", Images: map[string]string{"bb": "b:hot"}}},
		"file catches up":  {nodefile.Change{Kept: nodefile.Hotfix{Tag: "v1", Images: map[string]string{"bb": "b:1"}}}, "reg/a:v1", "reg/b:1", nodefile.Hotfix{}},
		"nothing to drop":  {nodefile.Change{DropTag: true, DropImages: []string{"aa"}}, "reg/a:v1", "reg/b:1", nodefile.Hotfix{}},
		"not of the tag":   {nodefile.Change{Kept: nodefile.Hotfix{Tag: "v2"}, Images: map[string]string{"aa": "a:v1"}}, "reg/a:v1", "reg/b:1", nodefile.Hotfix{Tag: "v2", Images: map[string]string{"aa": "a:v1"}}},
		"and without it":   {nodefile.Change{Kept: nodefile.Hotfix{Tag: "v2", Images: map[string]string{"aa": "a:v1"}}, DropTag: true}, "reg/a:v1", "reg/b:1", nodefile.Hotfix{}},
		"image of the tag": {nodefile.Change{Kept: nodefile.Hotfix{Tag: "v2"}, Images: map[string]string{"aa": "a:v2"}}, "reg/a:v2", "reg/b:1", nodefile.Hotfix{Tag: "v2", Images: map[string]string{"aa": "a:v2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			node, err := nodefile.Parse("node.yaml", []byte(file), profiles, c.change)
			if err != nil {
				t.Fatal(err)
			}
			if a, b := node.Services["aa"].Image, node.Services["bb"].Image; a != c.a || b != c.b {
				t.Errorf("got %s and %s, want %s and %s", a, b, c.a, c.b)
			}
			if !node.Hotfix.Equal(c.want) || node.FileTag != "v1" {
				t.Errorf("got %+v and tag %s, want %+v", node.Hotfix, node.FileTag, c.want)
			}
		})
	}
	for name, c := range map[string]struct {
		change nodefile.Change
		want   string
	}{
		"unknown":    {nodefile.Change{DropImages: []string{"aaa"}}, `--drop-image aaa: the node has no service "aaa"; did you mean aa?`},
		"both":       {nodefile.Change{Images: map[string]string{"aa": "x:1"}, DropImages: []string{"aa"}}, "--drop-image aa: --image gives this service another image; use one of the two"},
		"both a tag": {nodefile.Change{Tag: "v2", DropTag: true}, "--drop-tag: --tag v2 gives another tag; use one of the two"},
	} {
		if _, err := nodefile.Parse("node.yaml", []byte(file), profiles, c.change); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

func TestKeepGenerationsAndEngine(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		keep   int
		engine string
		err    string // in Keep's error
	}{
		"set":             {"keep_generations: 7\nengine: containerd\n", 7, "containerd", ""},
		"left out":        {"images: {}\n", 3, "docker", ""},
		"null":            {"keep_generations:\nengine:\n", 3, "docker", ""},
		"otherwise wrong": {"keep_generations: 5\nengin: x\nservices: [1]\n", 5, "docker", ""},
		"none":            {"keep_generations: 0\n", 0, "docker", "expected 1 or more, got 0"},
		"a word":          {"keep_generations: all\nengine: [a]\n", 0, "docker", "cannot unmarshal"},
		"no YAML":         {"keep_generations: [\n", 0, "docker", "yaml: line"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "node.yaml")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			keep, err := nodefile.KeepGenerations(path)
			if keep != c.keep || (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "%!")) {
				t.Errorf("keep %d, %v", keep, err)
			}
			if engine := nodefile.Engine(path); engine != c.engine {
				t.Errorf("engine %s", engine)
			}
		})
	}
	if _, err := nodefile.KeepGenerations(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no error without a file")
	}
}
