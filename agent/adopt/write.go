package adopt

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/nodefile"
)

// common takes the registry and the tag that most images have out of the services. An image
// without a registry then needs the one that Docker takes it from.
func common(services []translated) nodefile.Images {
	type origin struct{ registry, tag string }
	parts := func(image string) (o origin, name string) {
		name, o.tag, _ = strings.Cut(path.Base(image), ":")
		o.registry = path.Dir(image)
		if strings.Contains(image, "@") || o.registry == "." {
			o = origin{}
		}
		return o, name
	}
	var most origin
	count := map[origin]int{}
	for _, t := range services { // their order decides between those that are as frequent
		o, _ := parts(t.service.Image)
		if count[o]++; o != (origin{}) && count[o] > count[most] || most == (origin{}) {
			most = o
		}
	}
	if most == (origin{}) {
		return nodefile.Images{}
	}
	for i := range services {
		image := &services[i].service.Image
		if o, name := parts(*image); o == most {
			*image = name
		} else if !strings.Contains(*image, "/") {
			*image = dockerHub + *image
		}
	}
	return nodefile.Images{Registry: most.registry, Tag: most.tag}
}

// dockerHub is what Docker completes an image name with that has no registry.
const dockerHub = "docker.io/library/"

// text is the node file, with the findings as comments.
func text(host string, images nodefile.Images, services []translated, p Proposal) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The services that kolla-ansible runs on %s, as `kollet adopt` read them.\n", host)
	b.WriteString("# Their config files are those of kolla-ansible, in /etc/kolla.\n")
	comment(&b, "Not possible, because of", p.Blocked)
	comment(&b, "Left to kolla-ansible", p.Stays)
	comment(&b, "Will differ", p.Differs)
	b.WriteString("\nprofile: none\nengine: docker\n")
	if images.Registry != "" {
		fmt.Fprintf(&b, "images: {registry: %s, tag: %s}\n", scalar(images.Registry), quoted(images.Tag))
	}
	b.WriteString("services:\n")
	slices.SortFunc(services, func(a, b translated) int { return strings.Compare(a.name, b.name) })
	for _, t := range services {
		fmt.Fprintf(&b, "  %s: # container %s\n", t.name, t.container)
		block(&b, "    ", reflect.ValueOf(t.service))
	}
	return b.String()
}

func comment(b *strings.Builder, title string, findings []Finding) {
	if len(findings) == 0 {
		return
	}
	fmt.Fprintf(b, "#\n# %s:\n", title)
	for _, f := range findings {
		fmt.Fprintf(b, "# - %s\n", strings.Join(strings.Fields(f.String()), " "))
	}
}

// block writes the fields of a struct that are set, one per line.
func block(b *strings.Builder, indent string, v reflect.Value) {
	for i := range v.NumField() {
		key, field := v.Type().Field(i).Tag.Get("yaml"), v.Field(i)
		if key == "" || key == "-" || unset(field) {
			continue
		}
		b.WriteString(indent + key + ":")
		switch {
		case field.Kind() == reflect.Pointer:
			b.WriteByte('\n')
			block(b, indent+"  ", field.Elem())
		case field.Kind() == reflect.Map:
			b.WriteByte('\n')
			values := field.Interface().(map[string]string)
			for _, name := range slices.Sorted(maps.Keys(values)) {
				fmt.Fprintf(b, "%s  %s: %s\n", indent, scalar(name), quoted(values[name]))
			}
		case field.Kind() == reflect.Slice && (field.Type().Elem().Kind() == reflect.Struct || longText(field)):
			b.WriteByte('\n')
			for j := range field.Len() {
				b.WriteString(indent + "  - " + item(indent+"    ", field.Index(j)) + "\n")
			}
		default:
			b.WriteString(" " + flow(field) + "\n")
		}
	}
}

// longText reports whether a list has text of several lines.
func longText(list reflect.Value) bool {
	words, ok := reflect.TypeAssert[[]string](list)
	return ok && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "\n") })
}

// item is an entry of a list that is written one per line.
func item(indent string, v reflect.Value) string {
	if v.Kind() != reflect.String || !strings.Contains(v.String(), "\n") {
		return flow(v)
	}
	lines := strings.Split(strings.TrimSuffix(v.String(), "\n"), "\n")
	for i := range lines[1:] {
		if lines[i+1] != "" {
			lines[i+1] = indent + lines[i+1]
		}
	}
	return "|\n" + indent + strings.Join(lines, "\n")
}

func unset(v reflect.Value) bool {
	return v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

// flow writes a value on one line.
func flow(v reflect.Value) string {
	if d, ok := reflect.TypeAssert[time.Duration](v); ok {
		return short(d)
	}
	if m, ok := reflect.TypeAssert[nodefile.Volume](v); ok && shortVolume(m) != "" {
		return scalar(shortVolume(m))
	}
	switch v.Kind() {
	case reflect.String:
		return scalar(v.String())
	case reflect.Slice:
		var items []string
		for i := range v.Len() {
			items = append(items, flow(v.Index(i)))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case reflect.Pointer:
		return flow(v.Elem())
	case reflect.Struct:
		var fields []string
		for i := range v.NumField() {
			key := v.Type().Field(i).Tag.Get("yaml")
			if key != "" && key != "-" && !unset(v.Field(i)) {
				fields = append(fields, key+": "+flow(v.Field(i)))
			}
		}
		return "{" + strings.Join(fields, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

// short writes 3m0s as 3m.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

// shortVolume is the short form of a volume; empty if it has none.
func shortVolume(m nodefile.Volume) string {
	if m.Source == "" || m.Size+m.Mode != "" || strings.Contains(m.Source+m.Target, ":") {
		return ""
	}
	var options []string
	if m.ReadOnly {
		options = append(options, "ro")
	}
	if m.Propagation != "" {
		options = append(options, m.Propagation)
	}
	text := m.Source + ":" + m.Target
	if len(options) > 0 {
		text += ":" + strings.Join(options, ",")
	}
	return text
}

// plain matches text that is a string in YAML also without quotes, and true and false in no
// version of it.
var (
	plain   = regexp.MustCompile(`^-{0,2}[a-zA-Z/_]([a-zA-Z0-9/_.@:+-]*[a-zA-Z0-9/_.])?$`)
	special = []string{"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
)

func scalar(text string) string {
	if plain.MatchString(text) && !slices.Contains(special, strings.ToLower(text)) {
		return text
	}
	return quoted(text)
}

// quoted writes text in double quotes, as JSON does. JSON is YAML.
func quoted(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}
