"""Does with user-data what cloud-init does in its init stage, below a directory.

usage: split.py USER-DATA DIRECTORY

Prints as JSON the parts that cloud-init made out, the cloud-config that they are
merged to, and the scripts in the order in which they would run.
"""
import base64
import json
import os
import sys

import yaml
from cloudinit import handlers, helpers, user_data
from cloudinit.handlers.cloud_config import CloudConfigPartHandler
from cloudinit.handlers.shell_script import ShellScriptPartHandler
from cloudinit.settings import PER_INSTANCE


class Source:
    def get_instance_id(self):
        return "i"


source, directory = sys.argv[1:]
paths = helpers.Paths({"cloud_dir": directory, "run_dir": directory + "/run"}, ds=Source())
instance = directory + "/instances/i"
for name in ("handlers", "scripts"):
    os.makedirs(os.path.join(instance, name))
os.symlink(instance, directory + "/instance")
with open(source, "rb") as file:
    message = user_data.UserDataProcessor(paths).process(file.read())

parts = []


def note(_data, filename, payload, headers):
    if isinstance(payload, str):
        payload = payload.encode("utf-8", "surrogateescape")
    parts.append({"type": headers["Content-Type"], "name": filename, "data": base64.b64encode(payload).decode()})


handlers.walk(message, note, None)

known = helpers.ContentHandlers()
for handler in (CloudConfigPartHandler(paths), ShellScriptPartHandler(paths)):
    known.register(handler, initialized=True)
    handlers.call_begin(handler, None, PER_INSTANCE)
sys.path.insert(0, instance + "/handlers")
state = {
    "handlers": known, "handlerdir": instance + "/handlers", "data": None,
    "frequency": PER_INSTANCE, "handlercount": 0, "excluded": [],
}
handlers.walk(message, handlers.walker_callback, data=state)
for handler in {handler for _, handler in known.items()}:
    handlers.call_end(handler, None, PER_INSTANCE)

with open(paths.get_ipath("cloud_config")) as file:
    config = yaml.safe_load(file)
json.dump({"parts": parts, "config": config, "scripts": sorted(os.listdir(instance + "/scripts"))}, sys.stdout)
