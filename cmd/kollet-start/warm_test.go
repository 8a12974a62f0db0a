package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/test/needs"
)

func TestWarmUpIsBoundedAndLeavesNothing(t *testing.T) {
	needs.Root(t) // to set the groups of a user
	file := filepath.Join(t.TempDir(), "pids")
	for _, tc := range []struct{ name, script, want string }{
		{"too long", "sleep 1000 & echo $! $$ > " + file + "; wait", "killed after"},
		{"leaves a child behind", "sleep 1000 & echo $! $$ > " + file, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			limit := time.Minute
			if tc.want != "" {
				limit = 100 * time.Millisecond
			}
			err := warmUp([]string{"sh", "-c", tc.script}, account{name: "root"}, os.Environ(), limit)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got error %v, want %q", err, tc.want)
			}
			data, err := os.ReadFile(file)
			check(t, err)
			for pid := range strings.FieldsSeq(string(data)) {
				n, err := strconv.Atoi(pid)
				check(t, err)
				for alive(n) { // until its new parent has taken note
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
}

// alive tells whether a process runs: not when it is gone, or a zombie.
func alive(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH)
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return !strings.HasPrefix(rest, "Z")
}
