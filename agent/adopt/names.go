package adopt

import (
	"slices"
	"strings"
)

// compute are kolla-ansible's containers on compute nodes (kolla-ansible:
// ansible/inventory/multinode and the roles' defaults).
var compute = []string{
	"nova_libvirt", "nova_compute", "nova_ssh",
	"neutron_openvswitch_agent", "neutron_linuxbridge_agent", "neutron_metadata_agent", "neutron_ovn_metadata_agent", "neutron_ovn_agent", "neutron_sriov_agent",
	"openvswitch_db", "openvswitch_vswitchd", "ovn_controller",
	"iscsid", "multipathd",
	"ceilometer_compute", "ceilometer_ipmi", "collectd", "cyborg_agent", "masakari_instancemonitor", "hacluster_pacemaker_remote",
	"prometheus_node_exporter", "prometheus_cadvisor", "prometheus_libvirt_exporter", "prometheus_openstack_network_exporter",
}

func isCompute(container string) bool { return slices.Contains(compute, container) }

// tools are containers that kolla-ansible itself needs, or that serve others of it, with the
// reason why they stay.
var tools = map[string]string{
	"kolla_toolbox": "kolla-ansible itself runs its modules in it",
	"cron":          "it rotates the logs of all of kolla-ansible's containers",
	"fluentd":       "it forwards the logs of all of kolla-ansible's containers",
}

// renamed are services whose name is not that of the container with dashes. Their images have
// kollet's name.
var renamed = map[string]string{"openvswitch_db": "openvswitch-db-server"}

// ServiceName returns the name of the service that a container of kolla-ansible becomes.
func ServiceName(container string) string {
	if name, ok := renamed[container]; ok {
		return name
	}
	return strings.ReplaceAll(container, "_", "-")
}

// ContainerName is the inverse of ServiceName.
func ContainerName(service string) string {
	for container, name := range renamed {
		if name == service {
			return container
		}
	}
	return strings.ReplaceAll(service, "-", "_")
}
