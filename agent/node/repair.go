package node

import (
	"fmt"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/containers"
)

// Repair says how to repair a service whose container is in some state; empty if it has none. An upgrade
// does so for those that kollet runs, and upgrade says how. It is refused while kolla-ansible runs the node.
func (n *Node) Repair(s generation.Service, state containers.State, upgrade string) string {
	a, _ := n.Store().Adopted() // other functions report that it cannot be read
	was, adopted := a.Containers[s.Name]
	if s.Origin != 0 || !adopted {
		return upgrade
	}
	const adopt = "; `kollet adopt` then takes the node over"
	switch {
	case state == "":
		return "kolla-ansible runs it: " + n.Redeploy() + " creates it again" + adopt
	case state == containers.StatePaused:
		return fmt.Sprintf("kolla-ansible runs it: `docker unpause %s` resumes it", was.Name) + adopt
	case n.hasUnit(was.Name):
		return fmt.Sprintf("kolla-ansible runs it: `systemctl start %s` starts it, or %s creates it again", unitOf(was.Name), n.Redeploy()) + adopt
	}
	return fmt.Sprintf("kolla-ansible runs it: `docker start %s` starts it, or %s creates it again", was.Name, n.Redeploy()) + adopt
}

// StopKolla is the command that stops a container of kolla-ansible, so that it stays stopped.
func (n *Node) StopKolla(c containers.Container) string {
	switch name := c.Spec.Name; {
	case n.hasUnit(name):
		return fmt.Sprintf("`systemctl disable --now %s`", unitOf(name))
	case c.Spec.Restart == containers.RestartAlways: // Docker would start it when it starts itself
		return fmt.Sprintf("`docker update --restart no %s && docker stop %s`", name, name)
	default:
		return fmt.Sprintf("`docker stop %s`", name)
	}
}

// Redeploy is the command with which kolla-ansible creates containers of this node again.
func (n *Node) Redeploy() string { return fmt.Sprintf("`kolla-ansible deploy --limit %s`", n.Name) }
