package kolla_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/kollet/kollet/configs/kolla"
)

func TestMarshal(t *testing.T) {
	got, err := kolla.Marshal(kolla.Config{
		Command:     "nova-compute",
		ConfigFiles: []kolla.ConfigFile{{Source: "/var/lib/kolla/config_files/nova.conf", Dest: "/etc/nova/nova.conf", Owner: "nova", Perm: "0600"}},
		Directories: []kolla.Directory{{Path: "/var/lib/nova/instances", Owner: "nova:nova", Perm: "0755"}},
		Permissions: []kolla.Permission{{Path: "/var/log/kolla/<nova>", Owner: "nova", Perm: "2755", Recurse: true, Exclude: []string{"x"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "command": "nova-compute",
  "config_files": [
    {
      "source": "/var/lib/kolla/config_files/nova.conf",
      "dest": "/etc/nova/nova.conf",
      "owner": "nova",
      "perm": "0600"
    }
  ],
  "directories": [
    {
      "path": "/var/lib/nova/instances",
      "owner": "nova:nova",
      "perm": "0755"
    }
  ],
  "permissions": [
    {
      "path": "/var/log/kolla/<nova>",
      "owner": "nova",
      "perm": "2755",
      "recurse": true,
      "exclude": [
        "x"
      ]
    }
  ]
}
`
	if string(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestEverythingWrongIsSaid(t *testing.T) {
	_, err := kolla.Marshal(kolla.Config{
		Command:     " ",
		ConfigFiles: []kolla.ConfigFile{{Source: "nova.conf", Dest: "/etc/nova/nova.conf", Perm: "600"}},
		Directories: []kolla.Directory{{Path: "/var/*", Owner: "42436", Perm: "0o755"}},
		Permissions: []kolla.Permission{{Path: "", Owner: "nova:", Perm: "0888", Exclude: []string{"x"}}},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"command is empty",
		`config_files[0].source is "nova.conf"; expected an absolute path`,
		`config_files[0].owner is ""`,
		`config_files[0].perm is "600"; expected four octal digits`,
		`directories[0].path is "/var/*"`,
		`directories[0].owner is "42436"`,
		`directories[0].perm is "0o755"`,
		`permissions[0].path is ""`,
		`permissions[0].owner is "nova:"`,
		`permissions[0].perm is "0888"`,
		"permissions[0].exclude does nothing without recurse",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not said: %s\nin:\n%v", want, err)
		}
	}
}

func TestTheKeysAreKollas(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":             ``,
		"unknown key":         `{"command": "x", "files": []}`,
		"unknown key of file": `{"command": "x", "config_files": [{"source": "/a", "dest": "/b", "owner": "root", "perm": "0600", "exclude": []}]}`,
		"mode as a number":    `{"command": "x", "permissions": [{"path": "/a", "owner": "root", "perm": 600}]}`,
		"something after it":  `{"command": "x"} {}`,
		"zero byte":           `{"command": "x\u0000"}`,
		"no command":          `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			if c, err := parse([]byte(text)); err == nil {
				t.Errorf("accepted as %+v", c)
			}
		})
	}
}

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string // empty: refused
	}{
		{[]string{"nova-compute"}, "nova-compute"},
		{[]string{"ovsdb-server", "--remote=punix:/run/openvswitch/db.sock", `"quoted"`}, `ovsdb-server --remote=punix:/run/openvswitch/db.sock "quoted"`},
		{nil, ""},
		{[]string{"sh", "-c", "a b"}, ""},
		{[]string{"sh", ""}, ""},
		{[]string{"ls", "*"}, ""},
	} {
		got, err := kolla.Command(c.argv)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: got %q, %v; want %q", c.argv, got, err, c.want)
		}
	}
}

// parse reads a config.json that Marshal could have written.
func parse(data []byte) (kolla.Config, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var c kolla.Config
	if err := dec.Decode(&c); err != nil {
		return c, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return c, errors.New("expected nothing after the object")
	}
	return c, c.Validate()
}

func FuzzMarshal(f *testing.F) {
	f.Add([]byte(`{"command": "x", "config_files": [{"source": "/a*", "dest": "/b/", "owner": "root:root", "perm": "0600", "optional": true, "merge": true, "preserve_properties": true}]}`))
	f.Add([]byte(`{"command": "x", "directories": [{"path": "/a", "owner": "root", "perm": "0755"}], "permissions": [{"path": "/a", "owner": "root", "perm": "0755", "recurse": true, "exclude": ["b"]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse(data)
		if err != nil {
			return
		}
		text, err := kolla.Marshal(c)
		if err != nil {
			t.Fatalf("parsed, but cannot be written: %v", err)
		}
		again, err := parse(text)
		if err != nil {
			t.Fatalf("written, but cannot be read: %v\n%s", err, text)
		}
		if !reflect.DeepEqual(empty(c), empty(again)) {
			t.Fatalf("got %+v, want %+v", again, c)
		}
	})
}

// empty makes lists without entries equal to absent ones.
func empty(c kolla.Config) kolla.Config {
	if len(c.ConfigFiles) == 0 {
		c.ConfigFiles = nil
	}
	if len(c.Directories) == 0 {
		c.Directories = nil
	}
	if len(c.Permissions) == 0 {
		c.Permissions = nil
	}
	for i := range c.Permissions {
		if len(c.Permissions[i].Exclude) == 0 {
			c.Permissions[i].Exclude = nil
		}
	}
	return c
}
