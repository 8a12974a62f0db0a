package bounded

import (
	"encoding/json"
	"strconv"

	"golang.org/x/sys/unix"
)

// resources are the limits of the OCI runtime specification, by name.
var resources = map[string]int{
	"RLIMIT_AS": unix.RLIMIT_AS, "RLIMIT_CORE": unix.RLIMIT_CORE, "RLIMIT_CPU": unix.RLIMIT_CPU,
	"RLIMIT_DATA": unix.RLIMIT_DATA, "RLIMIT_FSIZE": unix.RLIMIT_FSIZE, "RLIMIT_LOCKS": unix.RLIMIT_LOCKS,
	"RLIMIT_MEMLOCK": unix.RLIMIT_MEMLOCK, "RLIMIT_MSGQUEUE": unix.RLIMIT_MSGQUEUE, "RLIMIT_NICE": unix.RLIMIT_NICE,
	"RLIMIT_NOFILE": unix.RLIMIT_NOFILE, "RLIMIT_NPROC": unix.RLIMIT_NPROC, "RLIMIT_RSS": unix.RLIMIT_RSS,
	"RLIMIT_RTPRIO": unix.RLIMIT_RTPRIO, "RLIMIT_RTTIME": unix.RLIMIT_RTTIME, "RLIMIT_SIGPENDING": unix.RLIMIT_SIGPENDING,
	"RLIMIT_STACK": unix.RLIMIT_STACK,
}

// ceiling returns this process's hard limit, which cannot be exceeded without
// CAP_SYS_RESOURCE, setrlimit(2).
func ceiling(name string) (uint64, bool) {
	number, ok := resources[name]
	var own unix.Rlimit
	if !ok || unix.Getrlimit(number, &own) != nil {
		return 0, false
	}
	return own.Max, true
}

// lower reduces the limits of a process to what can be set, and reports whether it
// changed one.
func lower(process map[string]any, ceiling func(string) (uint64, bool)) bool {
	list, _ := process["rlimits"].([]any)
	changed := false
	for _, item := range list {
		limit, _ := item.(map[string]any)
		name, _ := limit["type"].(string)
		top, ok := ceiling(name)
		if !ok {
			continue
		}
		for _, key := range []string{"soft", "hard"} {
			number, _ := limit[key].(json.Number)
			if n, err := strconv.ParseUint(number.String(), 10, 64); err == nil && n > top {
				limit[key], changed = json.Number(strconv.FormatUint(top, 10)), true
			}
		}
	}
	return changed
}
