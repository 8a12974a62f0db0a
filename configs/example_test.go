package configs_test

import (
	"fmt"

	"github.com/kollet/kollet/configs"
)

func ExampleRenderer_Render() {
	renderer, err := configs.New(configs.Inputs{
		Host:    "cmp1",
		Vars:    map[string]any{"rabbit_host": "10.0.0.5"},
		Secrets: map[string]string{"rabbit_password": "s3cr3t/"},
	})
	if err != nil {
		fmt.Println(err)
	}
	file, err := renderer.Render("metrics", configs.File{
		Where: "services.metrics.config[0]",
		Name:  "metrics.conf",
		Content: `host = {{ .host }}
broker = amqp://metrics:{{ secret "rabbit_password" | urlescape }}@{{ .vars.rabbit_host }}
`,
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Printf("For the service:\n%s\nFor people:\n%s", file.Content, file.Public)
	// Output:
	// For the service:
	// host = cmp1
	// broker = amqp://metrics:s3cr3t%2F@10.0.0.5
	//
	// For people:
	// host = cmp1
	// broker = amqp://metrics:<secret rabbit_password>@10.0.0.5
}
