//go:build !faults

package main

import "time"

// now is the clock of this machine.
var now = time.Now
