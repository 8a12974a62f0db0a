package report_test

import (
	"fmt"

	"github.com/kollet/kollet/configs/report"
)

func ExampleProblems() {
	var problems report.Problems
	keys := []string{"image", "command", "environment"}
	problems.Addf(report.Place{File: "node.yaml", Line: 14, Column: 5}, "services.web.imagee",
		"unknown key%s", report.DidYouMean("imagee", keys))
	problems.Addf(report.Place{File: "node.yaml", Line: 3, Column: 1}, "network",
		"expected linuxbridge, openvswitch or none, got %q", "bridge")
	fmt.Println(problems.Err())
	// Output:
	// node.yaml:3:1: network: expected linuxbridge, openvswitch or none, got "bridge"
	// node.yaml:14:5: services.web.imagee: unknown key; did you mean image?
}
