package fit

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// Needs is what a running guest needs from a libvirt and QEMU that take it over.
type Needs struct {
	Program string   // path of its QEMU in the container
	Machine string   // machine type, versioned by libvirt; empty: unknown
	Model   string   // CPU model; empty: the machine type's
	Flags   []string // features that are added to the CPU model
	Files   []string // firmware: its code, and the guest's variables
}

// NeedsOf reads a guest's needs from its command line, as libvirt writes it
// (libvirt: src/qemu/qemu_command.c). The guest's owner controls some arguments,
// such as its kernel's command line, which may be -cpu. So the first of each option
// counts, and only if its value is no option.
func NeedsOf(args []string) Needs {
	var n Needs
	if len(args) == 0 {
		return n
	}
	n.Program = args[0]
	cpu := false
	for i := 1; i < len(args)-1; i++ {
		option, value := args[i], args[i+1]
		switch {
		case strings.HasPrefix(value, "-"):
			continue
		case option == "-machine" && n.Machine == "":
			n.Machine = machineType(value)
		case option == "-cpu" && !cpu:
			n.Model, n.Flags = cpuModel(value)
			cpu = true
		case option == "-blockdev":
			n.addFile(firmwareNode(value))
		case option == "-drive":
			n.addFile(firmwareDrive(value))
		default:
			continue
		}
		i++
	}
	return n
}

func (n *Needs) addFile(file string) {
	if path.IsAbs(file) && !slices.Contains(n.Files, file) {
		n.Files = append(n.Files, file)
	}
}

// machineType reads pc-q35-8.2,usb=off,… or type=pc-q35-8.2,….
func machineType(value string) string {
	if strings.HasPrefix(value, "{") {
		return "" // JSON, which libvirt does not write
	}
	first, _, _ := strings.Cut(value, ",")
	return strings.TrimPrefix(first, "type=")
}

// cpuModel reads Skylake-Server,ss=on,+vmx,-hle,….
func cpuModel(value string) (model string, flags []string) {
	parts := strings.Split(value, ",")
	for _, part := range parts[1:] {
		name, setting, assigned := strings.Cut(part, "=")
		plus, added := strings.CutPrefix(name, "+")
		switch {
		case added:
			flags = append(flags, plus)
		case assigned && (setting == "on" || setting == "yes" || setting == "true"):
			flags = append(flags, name)
		}
	}
	return parts[0], flags
}

// firmwareNode reads the file of a block device that libvirt names after the
// flash memory that it is for, see virStorageSource in qemu_domain.c.
func firmwareNode(value string) string {
	var node struct {
		Driver string `json:"driver"`
		File   string `json:"filename"`
		Name   string `json:"node-name"`
	}
	if json.Unmarshal([]byte(value), &node) != nil || node.Driver != "file" || !strings.HasPrefix(node.Name, "libvirt-pflash") {
		return ""
	}
	return node.File
}

// firmwareDrive reads file=PATH,if=pflash,…, which libvirt wrote before it used
// -blockdev. Commas in the path are doubled.
func firmwareDrive(value string) string {
	const mark = "\x00"
	file, flash := "", false
	for part := range strings.SplitSeq(strings.ReplaceAll(value, ",,", mark), ",") {
		if path, ok := strings.CutPrefix(part, "file="); ok {
			file = strings.ReplaceAll(path, mark, ",")
		}
		flash = flash || part == "if=pflash"
	}
	if !flash {
		return ""
	}
	return file
}
