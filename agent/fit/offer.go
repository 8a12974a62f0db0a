package fit

import (
	"slices"
	"strings"
)

// Machines reads what QEMU prints for -machine help: a heading, then a line for
// each type and each alias (QEMU: system/vl.c, machine_help_func).
func Machines(help string) []string {
	var machines []string
	for line := range strings.Lines(help) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasSuffix(strings.TrimSpace(line), ":") {
			continue
		}
		machines = append(machines, words[0])
	}
	return machines
}

// CPUs reads what QEMU prints for -cpu help: the models, then the features (QEMU:
// target/i386/cpu.c, x86_cpu_list). Until QEMU 8.2, x86 stood before each model.
func CPUs(help string) (models, flags []string) {
	section := ""
	for line := range strings.Lines(help) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case strings.HasSuffix(strings.TrimSpace(line), ":"):
			section = strings.TrimSpace(line)
		case section == "Available CPUs:" && words[0] == "x86" && len(words) > 1:
			models = append(models, words[1])
		case section == "Available CPUs:":
			models = append(models, words[0])
		case section == "Recognized CPUID flags:":
			flags = append(flags, words...)
		}
	}
	slices.Sort(models)
	return slices.Compact(models), flags
}
