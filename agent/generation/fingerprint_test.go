package generation

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// irrelevant are the fields that do not require another container. When you add a field to
// Service or to a type in it, decide here whether it does.
var irrelevant = []string{"Ref", "InsteadOf", "Image.Digest", "StopGracePeriod", "DependsOn", "Group", "ReplaceWithDependencies", "Healthcheck", "Requires", "Guests", "ListedAs", "Problems", "Version", "Origin"}

// Every field is set to something else, one at a time.
func TestFingerprintOfEveryField(t *testing.T) {
	var base Service
	before := base.Fingerprint()
	visited := 0
	eachField(reflect.TypeFor[Service](), nil, "", func(index []int, name string) {
		visited++
		s := Service{}
		field := reflect.ValueOf(&s).Elem().FieldByIndex(index)
		field.Set(something(field.Type()))
		if changed := s.Fingerprint() != before; changed == slices.Contains(irrelevant, name) {
			t.Errorf("%s: another fingerprint: %v", name, changed)
		}
	})
	if visited < 35 {
		t.Errorf("only %d fields", visited)
	}
}

// eachField visits the fields of a struct and of those in it, but for times and
// what lists hold.
func eachField(t reflect.Type, index []int, prefix string, visit func(index []int, name string)) {
	for i := range t.NumField() {
		f, at := t.Field(i), append(slices.Clone(index), i)
		if f.Type.Kind() == reflect.Struct {
			eachField(f.Type, at, prefix+f.Name+".", visit)
			continue
		}
		visit(at, prefix+f.Name)
	}
}

// something is a value of a type that is not its zero.
func something(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.String:
		v.SetString("host")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Slice:
		v = reflect.Append(v, something(t.Elem()))
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(something(t.Key()), something(t.Elem()))
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() && !t.Field(i).Anonymous {
				v.Field(i).Set(something(t.Field(i).Type))
			}
		}
	default:
		panic(fmt.Sprint("no value of ", t))
	}
	return v
}

// A service whose fields are all set but for one field of one entry.
func TestFingerprintOfEntries(t *testing.T) {
	for _, list := range []string{"Files", "Permissions", "Mounts", "Ulimits"} {
		s := Service{}
		field := reflect.ValueOf(&s).Elem().FieldByName(list)
		if !field.IsValid() {
			field = reflect.ValueOf(&s.Spec).Elem().FieldByName(list)
		}
		field.Set(something(field.Type()))
		before := s.Fingerprint()
		entry := field.Index(0)
		for i := range entry.NumField() {
			old := reflect.ValueOf(entry.Field(i).Interface())
			entry.Field(i).SetZero()
			if s.Fingerprint() == before {
				t.Errorf("%s.%s makes no other fingerprint", list, entry.Type().Field(i).Name)
			}
			entry.Field(i).Set(old)
		}
	}
}

func full() Service {
	return Service{
		Name: "nova", Ref: "nova:1", Image: Image{ID: "sha256:1", Digest: "r/nova@sha256:2"},
		Spec: containers.Spec{
			Env: map[string]string{"A": "1", "B": "2"}, CapAdd: []string{"SYS_ADMIN", "NET_ADMIN"}, Devices: []string{"/dev/kvm", "/dev/fuse"},
			Mounts:  []containers.Mount{{Type: containers.Bind, Source: "/run", Target: "/run"}, {Type: containers.Tmpfs, Target: "/tmp"}},
			Ulimits: []containers.Ulimit{{Name: "nofile", Soft: 1, Hard: 2}, {Name: "core"}},
		},
		User: "nova", Argv: []string{"a", "b"}, Warmup: []string{"a", "-v"}, Files: []File{{Name: "0"}, {Name: "1"}},
		Healthcheck: []nodefile.Probe{{TCP: "a:1", Interval: time.Second}},
	}
}

func TestFingerprintIsStable(t *testing.T) {
	want := full().Fingerprint()
	for name, change := range map[string]func(*Service){
		"capabilities": func(s *Service) { slices.Reverse(s.Spec.CapAdd) },
		"devices":      func(s *Service) { slices.Reverse(s.Spec.Devices) },
		"mounts":       func(s *Service) { slices.Reverse(s.Spec.Mounts) },
		"ulimits":      func(s *Service) { slices.Reverse(s.Spec.Ulimits) },
		"canonical":    func(s *Service) { s.Spec = s.Spec.Canonical() },
		"empty lists": func(s *Service) {
			s.Permissions, s.Command, s.Spec.CapDrop = []nodefile.Permission{}, []string{}, []string{}
		},
		"read back":        func(s *Service) { *s = readBack(t, *s) },
		"empty, read back": func(s *Service) { s.Permissions = []nodefile.Permission{}; *s = readBack(t, *s) },
	} {
		s := full()
		change(&s)
		if s.Fingerprint() != want {
			t.Errorf("%s: another fingerprint", name)
		}
	}
	for name, change := range map[string]func(*Service){
		"program":       func(s *Service) { slices.Reverse(s.Argv) },
		"files applied": func(s *Service) { slices.Reverse(s.Files) },
		"warm-up":       func(s *Service) { slices.Reverse(s.Warmup) },
		"a word cut":    func(s *Service) { s.Argv = []string{"a b"} },
	} {
		s := full()
		change(&s)
		if s.Fingerprint() == want {
			t.Errorf("%s: the same fingerprint in another order", name)
		}
	}
	none, empty := Service{}, Service{Argv: []string{}}
	if none.Fingerprint() != empty.Fingerprint() {
		t.Error("no program and an empty one differ")
	}
	s := full()
	s.Fingerprint()
	if !reflect.DeepEqual(s, full()) {
		t.Error("taking the fingerprint changed the service")
	}
}

func readBack(t *testing.T, s Service) (out Service) {
	t.Helper()
	data, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestReference(t *testing.T) {
	if got := (Image{ID: "sha256:1", Digest: "r/n@sha256:2"}).Reference(); got != "r/n@sha256:2" {
		t.Error(got)
	}
	if got := (Image{ID: "sha256:1"}).Reference(); got != "sha256:1" {
		t.Error(got)
	}
}

func TestServiceByName(t *testing.T) {
	g := Generation{Services: []Service{{Name: "a", Origin: 1}, {Name: "b", Origin: 2}}}
	if s, ok := g.Service("b"); !ok || s.Origin != 2 {
		t.Error(s, ok)
	}
	if _, ok := g.Service("c"); ok {
		t.Error("found what is not there")
	}
}
