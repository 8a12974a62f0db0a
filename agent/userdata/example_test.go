package userdata_test

import (
	"fmt"

	"github.com/kollet/kollet/agent/userdata"
)

// User-data for a node whose image has kollet. The report names the files, but no
// content, which may be secret.
func ExampleBuild() {
	message, err := userdata.Build(userdata.Recipe{
		Node:  userdata.Node{NodeFile: "../../configs/examples/lab.yaml", OnNode: []string{userdata.SecretsDir}},
		Limit: userdata.NovaLimit,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, part := range message.Report().Parts {
		fmt.Printf("%s, commands: %d\n", part.Type, part.Commands)
		for _, file := range part.Files {
			fmt.Println(file.Permissions, file.Path)
		}
	}
	// Output:
	// text/cloud-config, commands: 1
	// 0600 /etc/kollet/node.yaml
	// 0700 /var/lib/kollet/first-boot
}
