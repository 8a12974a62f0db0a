// Package gate is the agreement between kollet and kollet-start, the program
// that every container starts with: where its files are, and what each of them
// means. A container waits at its gate until the file FileOpen exists in its gate
// directory; the FIFO only wakes it, so a wake-up that is lost or doubled does
// no harm, and a container that its engine restarts later passes at once.
//
// This file is the agreement; host.go is kollet's side of it. kollet-start's
// side is in cmd/kollet-start.
package gate

// Paths inside a container.
const (
	Start  = "/.kollet/start"              // kollet-start itself, bind-mounted read-only
	Dir    = "/.kollet/gate"               // the container's gate directory, bind-mounted writable
	Config = "/var/lib/kolla/config_files" // rendered files and config.json, bind-mounted read-only; may be absent
)

// Names in a gate directory.
const (
	FileOpen   = "open"   // exists once the service may run; made by kollet, removed by nobody
	FileFIFO   = "fifo"   // one byte wakes the waiting container; made by kollet before the container starts
	FileReady  = "ready"  // made by kollet-start when all is applied and it waits
	FileFailed = "failed" // made by kollet-start when it cannot go on: one line that says why; removed by it when it starts again
)

// kollet-start is the container's entrypoint; its arguments are flags, "--",
// and the program to become, with its arguments:
//
//	/.kollet/start --user=nova --warm=nova-compute --warm=--version -- nova-compute
//
// The container itself must run as root: kollet-start changes to the user.
const (
	FlagUser = "--user=" // user or user:group, names or numbers, as in docker run --user; default root
	FlagWarm = "--warm=" // one word of the warm-up command; repeated
)

// Exit codes of kollet-start when it does not become the service. A signal
// that ends it at its gate gives 128 + the signal's number, as in a shell.
// Below 126 they are those of sysexits.h(3head), which services rarely use.
const (
	ExitUsage   = 64  // its arguments are wrong
	ExitUser    = 67  // the user or group to run as does not exist
	ExitGate    = 74  // the gate directory is missing or cannot be written
	ExitConfig  = 78  // config.json is wrong, or could not be applied
	ExitExec    = 126 // the program to become is there but cannot be executed
	ExitProgram = 127 // the program to become, or its interpreter, does not exist
)

// Strategy is the environment variable that tells the start script of Kolla's
// images when to copy configuration. kollet-start has done so by then, and sets
// it to StrategyOnce for the service it becomes.
const (
	Strategy     = "KOLLA_CONFIG_STRATEGY"
	StrategyOnce = "COPY_ONCE"
)
