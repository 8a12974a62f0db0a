"""Creates a stack with Heat's own engine, whose node sends a signal at its first boot.

Reads {"template": PATH, "parameters": {NAME: VALUE}, "signal": {...}}, and prints
{"status": of the stack, "reason": that Heat shows, "data": of the wait condition}.

The wait condition, its handle and the stack are Heat's, with a database in memory.
The server and its port are resources that do nothing, and nothing asks a cloud.
"""
import json
import logging
import sys
from unittest import mock

from oslo_config import cfg
from oslo_db import options

import validate
from heat.common import context, messaging, template_format
from heat.db.sqlalchemy import api as database
from heat.db.sqlalchemy import models
from heat.engine import environment, resources, stack, template
from heat.engine.resources.openstack.heat import wait_condition_handle

# The cloud's resources become resources without properties that are complete at once.
NO_CLOUD = {"OS::Nova::Server": "OS::Heat::None", "OS::Neutron::Port": "OS::Heat::None"}


def create(job):
    handle = wait_condition_handle.HeatWaitConditionHandle
    # A handle is created with a user of its own, for the token.
    mock.patch.object(handle, "handle_create", lambda h: h.resource_id_set(h.name)).start()
    # Heat's API passes a signal to the engine, which passes it to the handle.
    status = handle.get_status

    def signalled(h):
        if not h.metadata_get():
            h.handle_signal(job["signal"])
        return status(h)

    mock.patch.object(handle, "get_status", signalled).start()
    who = context.RequestContext(project_id="project", user_id="user", username="user", is_admin=False)
    env = environment.Environment({"parameters": job["parameters"], "resource_registry": NO_CLOUD})
    path = job["template"]
    parsed = template.Template(template_format.parse(validate.read(path)), env=env, files=validate.files_beside(path))
    tree = stack.Stack(who, "nodes", parsed, user_creds_id="none", convergence=False)
    tree.store()
    tree.create()
    return {"status": tree.status, "reason": tree.status_reason, "data": tree["ready"].FnGetAtt("data")}


def main():
    logging.disable(logging.CRITICAL)
    options.set_defaults(cfg.CONF, connection="sqlite://")
    cfg.CONF([], project="heat", default_config_files=[])
    messaging.setup("fake://", optional=True)  # for notifications
    models.BASE.metadata.create_all(database.get_engine())
    resources.initialise()
    validate.without_cloud(validate.Configs())
    json.dump(create(json.load(sys.stdin)), sys.stdout)


if __name__ == "__main__":
    main()
