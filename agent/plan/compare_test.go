package plan

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

func TestValueChanges(t *testing.T) {
	for name, c := range map[string]struct {
		old, new any
		want     string
	}{
		"same text":       {"a", "a", ""},
		"text":            {"a", "b", "x: a, now b"},
		"set":             {"", "b", "x: unset, now b"},
		"unset":           {"a", "", "x: a, now unset"},
		"bool":            {false, true, "x: false, now true"},
		"number":          {int64(1), int64(2), "x: 1, now 2"},
		"no lists":        {[]string(nil), []string{}, ""},
		"same list":       {[]string{"a", "b"}, []string{"a", "b"}, ""},
		"added":           {[]string{"a"}, []string{"a", "b", "c"}, "x: now also b, c"},
		"dropped":         {[]string{"a", "b"}, []string{"b"}, "x: no longer a"},
		"replaced":        {[]string{"a", "b"}, []string{"a", "c"}, "x: b, now c"},
		"order":           {[]string{"a", "b"}, []string{"b", "a"}, "x: order changed"},
		"a double less":   {[]string{"-v", "-v"}, []string{"-v"}, "x: no longer -v"},
		"a double more":   {[]string{"-v"}, []string{"-v", "-v"}, "x: now also -v"},
		"mapping":         {map[string]string{"A": "1", "B": "2"}, map[string]string{"A": "1", "B": "3", "C": ""}, "x: B=2, now B=3, C="},
		"like a password": {[]string{"ssh_keys:/a"}, []string{"ssh_keys:/a:ro"}, "x: ssh_keys:/a, now ssh_keys:/a:ro"},
		"no mapping":      {map[string]string(nil), map[string]string{}, ""},
		"mounts":          {[]containers.Mount{{Type: "bind", Source: "/a", Target: "/b"}}, []containers.Mount{{Type: "bind", Source: "/a", Target: "/b", ReadOnly: true, Propagation: "rslave"}}, "x: /a:/b, now /a:/b:ro,rslave"},
		"security":        {containers.Security{NoNewPrivileges: true}, containers.Security{Seccomp: `{"a":1}`, AppArmor: "unconfined"}, "x: no-new-privileges, now apparmor=unconfined, seccomp=profile 015abd7f5cc5"},
		"tmpfs":           {[]containers.Mount{{Type: "tmpfs", Target: "/b"}}, []containers.Mount{{Type: "tmpfs", Target: "/b", Size: 64 << 20, Mode: "0755"}}, "x: /b, now /b:size=64m,mode=0755"},
		"a limit":         {containers.Dimensions{MemLimit: 1 << 30, CPUShares: 512}, containers.Dimensions{MemLimit: 1<<30 + 1, CPUShares: 512}, "x: mem_limit=1g, now mem_limit=1073741825"},
		"a limit more":    {containers.Dimensions{}, containers.Dimensions{CpusetCpus: "0-3"}, "x: now also cpuset_cpus=0-3"},
		"a limit less":    {containers.Dimensions{MemswapLimit: -1}, containers.Dimensions{}, "x: no longer memswap_limit=-1"},
		"what has a form": {[]containers.Ulimit{{Name: "core", Soft: 1, Hard: 2}}, []containers.Ulimit(nil), `x: no longer {"name":"core","soft":1,"hard":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(valueChanges("x", c.old, c.new), "; "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestPasswordsInSettings(t *testing.T) {
	was := map[string]string{"DB_PASSWORD": "1", "A": "2"}
	is := map[string]string{"DB_PASSWORD": "3", "A": "2"}
	if got := valueChanges("environment", was, is); !slices.Equal(got, []string{"environment: DB_PASSWORD=<masked>, now DB_PASSWORD=<masked>"}) {
		t.Errorf("%q", got)
	}
	if got := valueChanges("command", []string{"--to=amqp://a:b@c"}, []string{}); !slices.Equal(got, []string{"command: no longer --to=amqp://a:<masked>@c"}) {
		t.Errorf("%q", got)
	}
}

// A setting that changes is said to, whichever it is.
func TestSpecChangesOfEveryField(t *testing.T) {
	spec := reflect.TypeFor[containers.Spec]()
	for i := range spec.NumField() {
		var old, new containers.Spec
		field := reflect.ValueOf(&new).Elem().Field(i)
		switch field.Kind() {
		case reflect.String:
			field.SetString("host")
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Int, reflect.Int64:
			field.SetInt(7)
		case reflect.Map:
			field.Set(reflect.ValueOf(map[string]string{"A": "b"}))
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		case reflect.Struct:
			switch first := field.Field(0); first.Kind() {
			case reflect.Bool:
				first.SetBool(true)
			case reflect.Slice:
				first.Set(reflect.MakeSlice(first.Type(), 1, 1))
			default:
				first.SetInt(7)
			}
		default:
			t.Fatalf("no value for %s", spec.Field(i).Name)
		}
		name, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		if got := specChanges(old, new); len(got) != 1 || !strings.HasPrefix(got[0], name+": ") {
			t.Errorf("%s: got %q", spec.Field(i).Name, got)
		}
		if got := specChanges(new, new); len(got) > 0 {
			t.Errorf("%s: differs from itself: %q", spec.Field(i).Name, got)
		}
	}
	a := containers.Spec{CapAdd: []string{"CAP_NET_ADMIN", "sys_admin"}, Restart: ""}
	b := containers.Spec{CapAdd: []string{"SYS_ADMIN", "NET_ADMIN"}, Restart: "no"}
	if got := specChanges(a, b); len(got) > 0 {
		t.Errorf("two words for one thing: %q", got)
	}
}

// planned is a service of a generation that runs, and what becomes of it.
func planned() generation.Service {
	return generation.Service{
		Name: "nova", Ref: "nova:1", Image: generation.Image{ID: "sha256:1"}, Argv: []string{"nova"}, Origin: 3,
		Files: []generation.File{{Name: "00-a", Dest: "/etc/a", Owner: "root", Perm: "0600", SHA256: "1"}, {Name: "01-b", Dest: "/etc/b", Owner: "root", Perm: "0600", SHA256: "2"}},
	}
}

func TestCompare(t *testing.T) {
	store := generation.Store{Dir: t.TempDir()}
	public := store.Public(5, "nova")
	if err := os.MkdirAll(public, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"00-a": "x=1\n", "01-b": "y=1\n"} {
		if err := os.WriteFile(filepath.Join(public, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := generation.Generation{Number: 5, Services: []generation.Service{planned()}}
	for name, c := range map[string]struct {
		change func(*generation.Service)
		public map[string]string // of files that are new
		action Action
		say    string // spec, image and files, joined
	}{
		"nothing":           {func(s *generation.Service) { s.Origin = 9 }, nil, "", ""},
		"empty lists":       {func(s *generation.Service) { s.Permissions = []nodefile.Permission{}; s.DependsOn = []string{} }, nil, "", ""},
		"another service":   {func(s *generation.Service) { s.Name = "new" }, nil, Add, "image  nova:1 false; /etc/a new; /etc/b new"},
		"image":             {func(s *generation.Service) { s.Image.ID, s.Ref = "sha256:2", "nova:2" }, nil, Replace, "image nova:1 nova:2 false"},
		"image, not here":   {func(s *generation.Service) { s.Image.ID, s.Ref = "", "nova:2" }, nil, Replace, "image nova:1 nova:2 true"},
		"another tag of it": {func(s *generation.Service) { s.Ref = "nova:2" }, nil, UpdateInPlace, "image: nova:1, now nova:2"},
		"setting":           {func(s *generation.Service) { s.Spec.Privileged = true }, nil, Replace, "privileged: false, now true"},
		"program":           {func(s *generation.Service) { s.Argv = []string{"nova", "-v"} }, nil, Replace, "program: now also -v"},
		"warm-up":           {func(s *generation.Service) { s.Warmup = []string{"a"} }, nil, Replace, "warmup: now also a"},
		"preload":           {func(s *generation.Service) { s.Preload = &nodefile.Preload{Python: true, Modules: []string{"a.b"}} }, nil, Replace, "preload: now also python, a.b"},
		"paths":             {func(s *generation.Service) { s.Permissions = []nodefile.Permission{{Path: "/a"}} }, nil, Replace, `permissions: now also {"path":"/a","owner":"","perm":""}`},
		"probe":             {func(s *generation.Service) { s.Healthcheck = []nodefile.Probe{{TCP: "a:1", Interval: time.Second}} }, nil, UpdateInPlace, "healthcheck: changed"},
		"requires":          {func(s *generation.Service) { s.Requires = []nodefile.Probe{{TCP: "a:1"}} }, nil, UpdateInPlace, "requires: changed"},
		"order":             {func(s *generation.Service) { s.DependsOn = []string{"x"} }, nil, UpdateInPlace, "depends_on: now also x"},
		"grace and image":   {func(s *generation.Service) { s.StopGracePeriod, s.Image.ID, s.Ref = time.Minute, "sha256:2", "nova:2" }, nil, Replace, "stop_grace_period: 0s, now 1m0s; image nova:1 nova:2 false"},
		"content":           {func(s *generation.Service) { s.Files[0].SHA256 = "9" }, map[string]string{"00-a": "x=2\n"}, Replace, "/etc/a - x=1 + x=2"},
		"secret":            {func(s *generation.Service) { s.Files[0].SHA256 = "9" }, map[string]string{"00-a": "x=1\n"}, Replace, "/etc/a a secret in it changes"},
		"owner":             {func(s *generation.Service) { s.Files[0].Owner = "nova" }, map[string]string{"00-a": "x=1\n"}, Replace, "/etc/a owner root, mode 0600; now owner nova, mode 0600"},
		"content and mode":  {func(s *generation.Service) { s.Files[0].SHA256, s.Files[0].Perm = "9", "0644" }, map[string]string{"00-a": "x=2\n"}, Replace, "/etc/a - x=1 + x=2 owner root, mode 0600; now owner root, mode 0644"},
		"new file":          {func(s *generation.Service) { s.Files = append(s.Files, generation.File{Name: "02-c", Dest: "/etc/c"}) }, map[string]string{"02-c": "z=1\n"}, Replace, "/etc/c + z=1"},
		"new, empty file":   {func(s *generation.Service) { s.Files = append(s.Files, generation.File{Name: "02-c", Dest: "/etc/c"}) }, nil, Replace, "/etc/c new, and empty"},
		"files in order": {func(s *generation.Service) {
			s.Files[0], s.Files[1] = s.Files[1], s.Files[0]
			s.Files[0].Name, s.Files[1].Name = "00-b", "01-a"
		}, nil, Replace, "config: order changed"},
		"a place between": {func(s *generation.Service) { s.Files[1].Name = "02-b" }, nil, Replace, "config: order changed"},
		"file dropped":    {func(s *generation.Service) { s.Files = s.Files[:1] }, nil, Replace, "/etc/b reverts to the image's file"},
		"file moved":      {func(s *generation.Service) { s.Files[1].Dest = "/etc/d" }, map[string]string{"01-b": "y=1\n"}, Replace, "/etc/d + y=1; /etc/b reverts to the image's file"},
	} {
		t.Run(name, func(t *testing.T) {
			s := planned()
			s.Files = slices.Clone(s.Files)
			c.change(&s)
			var files []generation.Rendered
			for name, text := range c.public {
				files = append(files, generation.Rendered{Name: name, Public: []byte(text)})
			}
			got, err := compare(store, nil, s, files, old)
			if err != nil || got.Action != c.action || said(got) != c.say {
				t.Errorf("got %q: %s, %v; want %q: %s", got.Action, said(got), err, c.action, c.say)
			}
		})
	}
	if err := os.Remove(filepath.Join(public, "00-a")); err != nil {
		t.Fatal(err)
	}
	s := planned()
	s.Files = slices.Clone(s.Files)
	s.Files[0].SHA256 = "9"
	if _, err := compare(store, nil, s, nil, old); err == nil || !strings.HasPrefix(err.Error(), "compare /etc/a of nova: ") {
		t.Errorf("a record that is incomplete: %v", err)
	}
}

// A record of an earlier version has digests that were made without a key. That changes no
// file, and replaces no container. The same holds for a rollback to such a record.
func TestCompareDigestsWithoutKey(t *testing.T) {
	store, key := generation.Store{Dir: t.TempDir()}, generation.NewKey()
	if err := os.MkdirAll(store.Public(5, "nova"), 0o700); err != nil {
		t.Fatal(err)
	}
	files := []generation.Rendered{{Name: "00-a", Content: []byte("x=1\n")}, {Name: "01-b", Link: "a"}}
	plain, keyed := planned(), planned()
	keyed.Files = slices.Clone(keyed.Files)
	plain.Files[1].Link, keyed.Files[1].Link = "a", "a"
	for i, content := range []string{"x=1\n", "a"} {
		plain.Files[i].SHA256, keyed.Files[i].SHA256 = generation.Sum([]byte(content)), key.Digest([]byte(content))
	}
	for name, c := range map[string]struct{ from, to generation.Service }{"upgrade": {plain, keyed}, "rollback": {keyed, plain}} {
		current := generation.Generation{Number: 5, Services: []generation.Service{c.from}}
		if got, err := compare(store, key, c.to, files, current); err != nil || got.Action != "" || said(got) != "" {
			t.Errorf("%s: %s, %s, %v", name, got.Action, said(got), err)
		}
		if c.to.Files[0].SHA256 == c.from.Files[0].SHA256 {
			t.Errorf("%s: the service was changed", name)
		}
		changed := slices.Clone(files)
		changed[1].Link = "b"
		to := c.to
		to.Files = slices.Clone(to.Files)
		to.Files[1].Link, to.Files[1].SHA256 = "b", key.Digest([]byte("b"))
		if got, err := compare(store, key, to, changed, current); err != nil || got.Action != Replace || said(got) != "/etc/b symbolic link to b" {
			t.Errorf("%s with a change: %s, %s, %v", name, got.Action, said(got), err)
		}
	}
}

// Whatever an update in place changes is said.
func TestPolicyChangesOfEveryField(t *testing.T) {
	service := reflect.TypeFor[generation.Service]()
	visited := 0
	for i := range service.NumField() {
		old, new := generation.Service{}, generation.Service{}
		field := reflect.ValueOf(&new).Elem().Field(i)
		switch field.Kind() {
		case reflect.String:
			field.SetString("x")
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Int64:
			field.SetInt(1)
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		default:
			continue
		}
		if SamePolicy(old, new) || old.Fingerprint() != new.Fingerprint() {
			continue
		}
		visited++
		if len(policyChanges(old, new)) == 0 {
			t.Errorf("%s: not said", service.Field(i).Name)
		}
	}
	if visited < 9 {
		t.Errorf("only %d fields", visited)
	}
}

// said is a change in one line: of diffs, the lines that differ.
func said(c Change) string {
	parts := slices.Clone(c.Spec)
	if c.Image != nil {
		pull := " false"
		if c.Image.Pull {
			pull = " true"
		}
		parts = append(parts, "image "+c.Image.From+" "+c.Image.To+pull)
	}
	for _, f := range c.Files {
		words := []string{f.Path}
		for line := range strings.SplitSeq(f.Diff, "\n") {
			if strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "---") || strings.HasPrefix(line, "+") && !strings.HasPrefix(line, "+++") {
				words = append(words, line[:1], line[1:])
			}
		}
		if f.Note != "" {
			words = append(words, f.Note)
		}
		parts = append(parts, strings.Join(words, " "))
	}
	return strings.Join(parts, "; ")
}

func TestReplacedWithItsDependencies(t *testing.T) {
	service := generation.Service{Name: "nova-compute", DependsOn: []string{"network", "nova-libvirt"}, ReplaceWithDependencies: true}
	for name, c := range map[string]struct {
		changes []Change
		with    bool // replace_with_dependencies
		want    string
	}{
		"nothing changes":                   {nil, true, ""},
		"a dependency is replaced":          {[]Change{{Service: "nova-libvirt", Action: Replace}}, true, "nova-libvirt"},
		"a dependency is new":               {[]Change{{Service: "nova-libvirt", Action: Add}}, true, "nova-libvirt"},
		"a dependency keeps its container":  {[]Change{{Service: "nova-libvirt", Action: UpdateInPlace}}, true, ""},
		"another service is replaced":       {[]Change{{Service: "other", Action: Replace}}, true, ""},
		"the service does not ask for that": {[]Change{{Service: "nova-libvirt", Action: Replace}}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := service
			s.ReplaceWithDependencies = c.with
			if got := (Plan{Changes: c.changes}).replaced(s); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
