package kolla_test

import (
	"fmt"

	"github.com/kollet/kollet/configs/kolla"
)

func ExampleMarshal() {
	command, err := kolla.Command([]string{"nova-compute", "--config-file", "/etc/nova/nova.conf"})
	if err != nil {
		fmt.Println(err)
	}
	data, err := kolla.Marshal(kolla.Config{
		Command:     command,
		ConfigFiles: []kolla.ConfigFile{{Source: "/var/lib/kolla/config_files/nova.conf", Dest: "/etc/nova/nova.conf", Owner: "nova", Perm: "0600"}},
		Permissions: []kolla.Permission{{Path: "/var/lib/nova", Owner: "nova", Perm: "0755"}},
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%s", data)
	// Output:
	// {
	//   "command": "nova-compute --config-file /etc/nova/nova.conf",
	//   "config_files": [
	//     {
	//       "source": "/var/lib/kolla/config_files/nova.conf",
	//       "dest": "/etc/nova/nova.conf",
	//       "owner": "nova",
	//       "perm": "0600"
	//     }
	//   ],
	//   "permissions": [
	//     {
	//       "path": "/var/lib/nova",
	//       "owner": "nova",
	//       "perm": "0755"
	//     }
	//   ]
	// }
}

func ExampleCommand_quoting() {
	_, err := kolla.Command([]string{"sh", "-c", "exec serve"})
	fmt.Println(err)
	// Output:
	// argument 2 of the command, "exec serve", is empty or contains white space or one of * ? [, which Kolla's start script would split or expand; use a script in the image instead
}
