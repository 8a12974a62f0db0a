package docker

import (
	"reflect"

	"github.com/docker/docker/api/types/container"

	"github.com/kollet/kollet/containers"
)

// command is the first word of a health check that runs without a shell.
const command = "CMD"

func toHealthcheck(h containers.Healthcheck) *container.HealthConfig {
	if len(h.Test) == 0 {
		return nil // the image's, if it has one
	}
	return &container.HealthConfig{
		Test: append([]string{command}, h.Test...), Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, Retries: h.Retries,
	}
}

// fromHealthcheck returns a container's health check, unless it is that of its image.
func fromHealthcheck(c *container.HealthConfig, image *imageConfig, set explicit) containers.Healthcheck {
	if c == nil || len(c.Test) == 0 || !set["engine_healthcheck"] && reflect.DeepEqual(c, image.healthcheck) {
		return containers.Healthcheck{}
	}
	test := c.Test
	if test[0] == command && len(test) > 1 {
		test = test[1:] // others are shown as they are: kollet did not set them
	}
	return containers.Healthcheck{Test: test, Interval: c.Interval, Timeout: c.Timeout, StartPeriod: c.StartPeriod, Retries: c.Retries}
}
