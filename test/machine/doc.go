// Package machine gives tests real daemons on a machine of their own.
//
// TestMain calls Main:
//
//	func TestMain(m *testing.M) { machine.Main(m) }
package machine
