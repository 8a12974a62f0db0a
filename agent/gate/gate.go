// Package gate is the agreement between kollet and kollet-start, the program
// that every container starts with: where its files are, and what each of them
// means. A container waits at its gate until the file Open exists in its gate
// directory; the FIFO only wakes it, so a wake-up that is lost or doubled does
// no harm, and a container that its engine restarts later passes at once.
package gate

// Paths inside a container.
const (
	Start  = "/.kollet/start"                // kollet-start itself, bind-mounted read-only
	Dir    = "/.kollet/gate"                 // the container's gate directory, bind-mounted writable
	Config = "/var/lib/kolla/config_files"   // rendered files and config.json, bind-mounted read-only
)

// Names in a gate directory.
const (
	Open   = "open"   // exists once the service may run; made by kollet, removed by nobody
	FIFO   = "fifo"   // one byte wakes the waiting container; made by kollet before the container starts
	Ready  = "ready"  // made by kollet-start when all is applied and it waits
	Failed = "failed" // made by kollet-start when it cannot go on: one line that says why
)

// kollet-start is the container's entrypoint; its arguments are flags, "--",
// and the program to become, with its arguments:
//
//	/.kollet/start --user=nova --warm=nova-compute --warm=--version -- nova-compute
const (
	FlagUser = "--user=" // user or user:group, names or numbers; default root
	FlagWarm = "--warm=" // one word of the warm-up command; repeated
)
