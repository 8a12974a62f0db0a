// Package gate is the contract between kollet and kollet-start, the entrypoint of
// every container: where its files are and what each of them means. A container
// waits at its gate until the file FileOpen exists in its gate directory. The
// FIFO only wakes it, so a lost or repeated wake-up is harmless, and a container
// that its engine restarts later passes at once.
//
// This file is the contract; host.go is kollet's side of it. kollet-start's side
// is in cmd/kollet-start.
package gate

// Paths inside a container.
const (
	Home   = "/.kollet"                    // kollet's own: nothing else is put there, mounted there or changed there
	Start  = "/.kollet/start"              // kollet-start itself, bind-mounted read-only
	Dir    = "/.kollet/gate"               // the container's gate directory, bind-mounted writable
	Config = "/var/lib/kolla/config_files" // rendered files and config.json, bind-mounted read-only; may be absent
)

// Names in a gate directory.
const (
	FileOpen   = "open"   // exists once the service may run; created by kollet, and removed once the container is replaced
	FileFIFO   = "fifo"   // one byte wakes the waiting container; created by kollet before the container starts
	FileReady  = "ready"  // created by kollet-start when the files are applied and it waits
	FileFailed = "failed" // created by kollet-start when it cannot continue: one line with the reason; kollet-start removes it when it starts again
)

// kollet-start's arguments are flags, "--", and the service's program with its
// arguments:
//
//	/.kollet/start --user=nova --warmup=nova-compute --warmup=--version -- nova-compute
//
// The container itself must run as root: kollet-start switches to the user.
const (
	FlagUser    = "--user="           // user or user:group, names or numbers, as in docker run --user; default root
	FlagWarmup  = "--warmup="         // one word of the warm-up command; repeated
	FlagPreload = "--preload=python"  // import the modules of a Python service before the gate
	FlagModule  = "--preload-module=" // a module to import in addition to those of the service's script; repeated
)

// Exit codes of kollet-start when it does not become the service. If a signal
// ends it at its gate, the code is 128 + the signal's number, as in a shell. The
// codes below 126 are those of sysexits.h(3head), which services rarely use.
const (
	ExitUsage   = 64  // its arguments are wrong
	ExitUser    = 67  // the user or group to run as does not exist
	ExitGate    = 74  // the gate directory is missing or cannot be written
	ExitConfig  = 78  // config.json is wrong, or could not be applied
	ExitExec    = 126 // the program to become is there but cannot be executed
	ExitProgram = 127 // the program to become, or its interpreter, does not exist
)

// Strategy is the environment variable that tells the start script of Kolla's
// images when to copy configuration. By then kollet-start has copied it, and sets
// the variable to StrategyOnce for the service.
const (
	Strategy     = "KOLLA_CONFIG_STRATEGY"
	StrategyOnce = "COPY_ONCE"
)
