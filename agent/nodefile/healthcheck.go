package nodefile

import "github.com/kollet/kollet/containers"

func (h EngineHealthcheck) validate(engine string, bad func(string, string, ...any)) {
	spec := h.Spec()
	if err := spec.Check(); err != nil {
		bad("engine_healthcheck", "%w", err)
	}
	if len(spec.Test) > 0 && engine != "docker" {
		bad("engine_healthcheck", "%s: %w", engine, containers.ErrNoHealthcheck)
	}
}

// Spec returns it as engines take it.
func (h EngineHealthcheck) Spec() containers.Healthcheck {
	return containers.Healthcheck{Test: h.Test, Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, Retries: h.Retries}
}
