"""Reads a seed's directory with cloud-init's own code.

usage: read.py nocloud|config-drive DIRECTORY

Prints as JSON the instance's id, host name, keys, user-data, vendor-data, and its
network as cloud-init understands it.
"""
import json
import sys

import yaml
from cloudinit import sources, util
from cloudinit.net import network_state
from cloudinit.sources import DataSourceConfigDrive
from cloudinit.sources.helpers import openstack

kind, directory = sys.argv[1:]
if kind == "nocloud":
    found = util.pathprefix2dict(directory, ["user-data", "meta-data"], ["vendor-data", "network-config"])
    meta = yaml.safe_load(found["meta-data"])
    keys = meta.get("public-keys")
    user, vendor = found["user-data"], found.get("vendor-data")
    network = yaml.safe_load(found.get("network-config", b"{}"))
else:
    found = DataSourceConfigDrive.read_config_drive(directory)
    meta = found["metadata"]
    keys = meta.get("public_keys")
    user, vendor = found["userdata"], sources.convert_vendordata(found["vendordata"])
    network = openstack.convert_net_json(found.get("networkdata"), known_macs={}) or {}

lines = []
if network:
    for nic in network_state.parse_net_config_data(network).iter_interfaces():
        name = nic["name"]
        lines.append("%s mac %s mtu %s accept-ra %s" % (name, nic["mac_address"], nic["mtu"], nic["accept-ra"]))
        for net in nic["subnets"]:
            where = "/".join(str(net[key]) for key in ("address", "prefix") if key in net)
            lines.append("%s %s %s" % (name, net["type"], where))
            routes = ["%(network)s/%(prefix)s via %(gateway)s" % route for route in net["routes"]]
            if net.get("gateway"):
                everywhere = "::/0" if ":" in net["gateway"] else "0.0.0.0/0"
                routes.insert(0, "%s via %s" % (everywhere, net["gateway"]))
            lines += ["%s route %s" % (name, route) for route in routes]
            for key in ("dns_nameservers", "dns_search"):
                if net.get(key):
                    lines.append("%s %s %s" % (name, key, " ".join(net[key])))
json.dump({
    "id": meta["instance-id"], "host": meta["local-hostname"],
    "keys": sources.normalize_pubkey_data(keys), "user": util.decode_binary(user),
    "vendor": util.decode_binary(vendor) if vendor else "", "network": lines,
}, sys.stdout)
