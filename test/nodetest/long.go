package nodetest

import "os"

// Long reports whether a test runs in full, as in make test-long. In make test, kollet is killed
// after fewer records of its journal, and what depends less on the engine runs on Docker only: the
// conformance suite, the protocol and sick nodes show that the engines do the same.
func Long() bool { return os.Getenv("KOLLET_TEST_LONG") != "" }

// RecordsApart returns how many records lie between those after which a test kills kollet.
func RecordsApart() int {
	if Long() {
		return 1
	}
	return 3
}
