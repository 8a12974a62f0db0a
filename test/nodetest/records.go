package nodetest

import "os"

// EveryRecord reports whether kollet is killed after every record of its journal, on each engine.
// make test-crash asks for that; make test has no time for it.
func EveryRecord() bool { return os.Getenv("KOLLET_EVERY_RECORD") != "" }

// RecordsApart returns how many records lie between those after which a test kills kollet.
func RecordsApart() int {
	if EveryRecord() {
		return 1
	}
	return 3
}
