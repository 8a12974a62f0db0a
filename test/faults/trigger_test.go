package faults

import "sync"

// trigger decides which of a command's calls fail.
type trigger struct {
	at      int               // the number of the call that fails; 0: none
	lasting bool              // and all that follow
	applies func(string) bool // calls that can fail like this; others are not counted
	armed   func() bool       // calls before it holds are not counted; nil: all are

	mutex sync.Mutex
	calls []string // that were counted
	hit   string   // the first that failed
}

// fires counts a call, and reports whether it fails.
func (t *trigger) fires(call string) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.applies != nil && !t.applies(call) {
		return false
	}
	if t.armed != nil {
		if !t.armed() {
			return false
		}
		t.armed = nil
	}
	t.calls = append(t.calls, call)
	n := len(t.calls)
	if t.at == 0 || n < t.at || n > t.at && !t.lasting {
		return false
	}
	if t.hit == "" {
		t.hit = call
	}
	return true
}

// struck is what happened when a fault is not at a call.
func (t *trigger) struck(call string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.hit = call
}

// injected returns the first call that failed.
func (t *trigger) injected() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.hit
}

// counted returns the calls so far.
func (t *trigger) counted() []string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.calls
}
