package containers

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// seccompProfile is what of a profile every runtime checks alike.
type seccompProfile struct {
	DefaultAction   string `json:"defaultAction"`
	DefaultErrnoRet uint   `json:"defaultErrnoRet"`
	ListenerPath    string `json:"listenerPath"`
	Syscalls        []struct {
		Action   string `json:"action"`
		ErrnoRet uint   `json:"errnoRet"`
		Args     []struct {
			Index uint   `json:"index"`
			Op    string `json:"op"`
		} `json:"args"`
	} `json:"syscalls"`
}

// What a profile may say (OCI runtime specification, config-linux.md, Seccomp).
var (
	seccompActions   = []string{"KILL", "KILL_PROCESS", "KILL_THREAD", "TRAP", "ERRNO", "TRACE", "ALLOW", "LOG", notifyAction}
	seccompOperators = []string{"NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"}
)

const (
	notifyAction = "NOTIFY"
	mostErrno    = 4095 // MAX_ERRNO of the kernel
	mostArgument = 5    // of a system call, from 0
)

// checkSeccomp returns the first problem of a profile.
func checkSeccomp(text string) error {
	var profile seccompProfile
	err := json.Unmarshal([]byte(text), &profile)
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s: expected a %s, got a %s", kind.Field, kindOf(kind), kind.Value)
	}
	if err != nil {
		return err
	}
	if profile.DefaultAction == "" {
		return fmt.Errorf("it has no defaultAction, such as SCMP_ACT_ERRNO")
	}
	if err := profile.checkAction("defaultAction", profile.DefaultAction, profile.DefaultErrnoRet); err != nil {
		return err
	}
	for i, call := range profile.Syscalls {
		at := fmt.Sprintf("syscalls[%d].", i)
		if err := profile.checkAction(at+"action", call.Action, call.ErrnoRet); err != nil {
			return err
		}
		for n, arg := range call.Args {
			if !known("SCMP_CMP_", arg.Op, seccompOperators) {
				return fmt.Errorf("%sargs[%d].op: expected %s, got %q", at, n, choice("SCMP_CMP_", seccompOperators), arg.Op)
			}
			if arg.Index > mostArgument {
				return fmt.Errorf("%sargs[%d].index: expected 0 to %d, got %d", at, n, mostArgument, arg.Index)
			}
		}
	}
	return nil
}

func (p seccompProfile) checkAction(key, action string, errno uint) error {
	switch {
	case !known("SCMP_ACT_", action, seccompActions):
		return fmt.Errorf("%s: expected %s, got %q", key, choice("SCMP_ACT_", seccompActions), action)
	case action == "SCMP_ACT_"+notifyAction && p.ListenerPath == "":
		return fmt.Errorf("%s: %s needs a listenerPath, at which a program decides", key, action)
	case action == "SCMP_ACT_ERRNO" && errno > mostErrno:
		return fmt.Errorf("%s: expected an error number up to %d to return, got %d", key, mostErrno, errno)
	}
	return nil
}

func known(prefix, word string, of []string) bool {
	rest, ok := strings.CutPrefix(word, prefix)
	return ok && slices.Contains(of, rest)
}

func choice(prefix string, of []string) string {
	return prefix + strings.Join(of[:len(of)-1], ", "+prefix) + " or " + prefix + of[len(of)-1]
}

// kindOf is the type that JSON calls for.
func kindOf(e *json.UnmarshalTypeError) string {
	switch e.Type.Kind().String() {
	case "uint":
		return "positive number"
	case "slice":
		return "list"
	case "struct":
		return "mapping"
	}
	return e.Type.Kind().String()
}
