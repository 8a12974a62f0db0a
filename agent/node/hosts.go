package node

import "sync"

// Hosts returns a function that reports whether containers of a service from a generation may
// have started guests: if any generation says that the service does, because that is no reason
// to replace its container. If a record is lost, nobody knows what it said, and they may. The
// records are read when the function is called first.
func (n *Node) Hosts() func(generation int, service string) bool {
	type records struct {
		damaged bool
		known   map[int]bool
		hosts   map[string]bool
	}
	read := sync.OnceValue(func() records {
		r := records{known: map[int]bool{}, hosts: map[string]bool{}}
		numbers, err := n.Store().List()
		r.damaged = err != nil
		for _, number := range append(numbers, 0) {
			g, err := n.Store().Load(number)
			if err != nil {
				r.damaged = true
				continue
			}
			r.known[number] = number > 0 || len(g.Services) > 0
			for _, s := range g.Services {
				r.hosts[s.Name] = r.hosts[s.Name] || s.Guests != nil
			}
		}
		return r
	})
	return func(generation int, service string) bool {
		r := read()
		return r.damaged || !r.known[generation] || r.hosts[service]
	}
}
