package target

import (
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/openstack"
	"github.com/kollet/kollet/agent/wary"
	"github.com/kollet/kollet/configs/report"
)

// Cloud is what a node file says of the control plane. It is no part of a
// generation: the credentials stay in the node file and its secrets.
type Cloud struct {
	Access  *openstack.Access // nil: kollet does not ask it
	Quiesce nodefile.Quiesce
	Problem error // with the node file, because of which Access is not known
}

// CloudOf reads it from a node file that may have other problems.
func CloudOf(n *node.Node) Cloud {
	file, err := n.ReadFile(nodefile.Change{})
	if file == nil {
		return Cloud{Quiesce: nodefile.Quiesce{Disable: new(bool), OnBusy: nodefile.Refuse}, Problem: err}
	}
	var problems report.Problems
	writable := writableDirs(n, file)
	cloud := cloudOf(n, file, writable, readSecrets(n, file, writable, &problems))
	if cloud.Access != nil && problems.Len() > 0 {
		cloud.Access, cloud.Problem = nil, problems.Err()
	}
	return cloud
}

func cloudOf(n *node.Node, file *nodefile.Node, writable wary.Dirs, secrets map[string]string) Cloud {
	cloud := Cloud{Quiesce: file.Quiesce}
	o := file.OpenStack
	if o == nil {
		return cloud
	}
	cloud.Access = &openstack.Access{
		AuthURL:  o.AuthURL,
		Username: o.Username, Password: secrets[o.Password], UserDomain: o.UserDomain,
		Project: o.Project, ProjectDomain: o.ProjectDomain,
		CredentialID: o.ApplicationCredentialID, CredentialSecret: secrets[o.ApplicationCredentialSecret],
		Region: o.Region, Interface: o.Interface,
	}
	cloud.Access.PlacementURL, _ = file.Vars["placement_url"].(string)
	if o.CAFile != "" {
		cloud.Access.CAFile, cloud.Access.Writable = n.Path(o.CAFile), writable
	}
	return cloud
}
