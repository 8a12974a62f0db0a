"""Validates templates with Heat's own engine, as far as possible without a cloud.

Reads a JSON list of jobs, {"template": PATH, "parameters": {NAME: VALUE}}, and prints a
list of answers: {"complaint": error message, "message": the multipart message that Heat
builds for the template, if any}.

Heat parses the template and the templates that it uses, resolves the parameters, and
checks the properties of every resource against the resource's schema. It does not check
what needs a cloud: whether images, flavors and networks exist, and whether the image
fits the flavor.
"""
import json
import logging
import os
import sys
import uuid
from unittest import mock

from oslo_config import cfg

from heat.common import config  # noqa: F401, its options
from heat.common import context, exception, template_format
from heat.engine import constraints, environment, resource, resources, stack, stk_defn, template, translation
from heat.engine.resources.openstack.heat import multi_part, software_config, wait_condition_handle
from heat.engine.resources.openstack.nova import server
from heat.rpc import api

CURL = "curl -i -X POST -H 'X-Auth-Token: TOKEN' -H 'Content-Type: application/json' -H 'Accept: application/json' http://10.0.2.100/signal"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def files_beside(path):
    """Return the files that a client sends with a template."""
    directory = os.path.dirname(path)
    return {name: read(os.path.join(directory, name)) for name in os.listdir(directory) if name.endswith((".yaml", ".sh"))}


def without_cloud(configs):
    """Replace Heat's queries of other services and of its database."""
    for target, name, value in (
        (constraints.BaseCustomConstraint, "validate", lambda *_: True),
        (translation.Translation, "translate", lambda _, name, value=None, *rest, **more: value),
        (server.Server, "_validate_image_flavor", lambda *_: None),
        (resource.Resource, "rpc_client", lambda _: configs),
        (resource.Resource, "is_service_available", classmethod(lambda *_: (True, None))),
        (wait_condition_handle.HeatWaitConditionHandle, "_resolve_attribute", lambda _, key: CURL if key == "curl_cli" else None),
    ):
        mock.patch.object(target, name, value).start()


class Configs:
    """Replaces the part of the engine that stores software configs."""

    def __init__(self):
        self.kept = {}

    def create_software_config(self, _, **given):
        made = {api.SOFTWARE_CONFIG_ID: str(uuid.uuid4()), api.SOFTWARE_CONFIG_CONFIG: given[api.SOFTWARE_CONFIG_CONFIG]}
        self.kept[made[api.SOFTWARE_CONFIG_ID]] = made
        return made

    def show_software_config(self, _, name):
        return self.kept[name]

    def ignore_error_by_name(self, _):
        return mock.MagicMock()


def message(tree, configs):
    """Return the multipart message of a template, as Heat would store it."""
    made = None
    for made_next in tree.dependencies:  # in the order of their creation
        made_next.action, made_next.status = made_next.CREATE, made_next.COMPLETE
        if isinstance(made_next, software_config.SoftwareConfig):
            made_next.handle_create()
        else:
            made_next.resource_id = made_next.name
        if isinstance(made_next, multi_part.MultipartMime):
            made = made_next.get_message()
        stk_defn.update_resource_data(tree.defn, made_next.name, made_next.node_data())
    return made


def answer(job, configs):
    path = job["template"]
    try:
        env = environment.Environment({"parameters": job["parameters"]})
        parsed = template.Template(template_format.parse(read(path)), env=env, files=files_beside(path))
        who = context.RequestContext(project_id="project", user_id="user", username="user", is_admin=False)
        tree = stack.Stack(who, "nodes", parsed, strict_validate=True)
        tree.validate()
    except (exception.HeatException, ValueError) as error:  # as the engine's validate_template
        return {"complaint": "%s: %s" % (path, error)}
    return {"message": message(tree, configs)}


def main():
    logging.disable(logging.CRITICAL)
    cfg.CONF([], project="heat", default_config_files=[])
    resources.initialise()
    configs = Configs()
    without_cloud(configs)
    json.dump([answer(job, configs) for job in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
