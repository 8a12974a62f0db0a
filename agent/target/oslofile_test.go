package target

import "testing"

// Where an option of a file comes from is known, by its layer and line.
func TestOsloFileOrigin(t *testing.T) {
	n := onHost(t, map[string]string{"/etc/kollet/config/x.conf": "[a]\n\nb = 1\n"})
	target, err := readConfig(t, n, "{content: \"[a]\\nc = 1\\n\", dest: /x.conf, format: ini, overrides: [x.conf], oslo_namespaces: [nova.conf], owner: nova, perm: '0640'}")
	if err != nil {
		t.Fatal(err)
	}
	if len(target.OsloFiles) != 1 || target.OsloFiles[0].Service != "one" || target.OsloFiles[0].Path != "/x.conf" {
		t.Fatalf("got %+v", target.OsloFiles)
	}
	f := target.OsloFiles[0]
	for option, want := range map[[2]string]string{
		{"a", "b"}: " (" + n.Path("/etc/kollet/config/x.conf") + ":3)",
		{"A", "b"}: " (" + n.Path("/etc/kollet/config/x.conf") + ":3)",
		{"a", "c"}: " (services.one.config[0].content:2)",
		{"a", "d"}: "",
	} {
		if got := f.Origin(option[0], option[1]); got != want {
			t.Errorf("%v: got %q, want %q", option, got, want)
		}
	}
}
