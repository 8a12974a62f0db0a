"""A reading of Kolla's container configuration contract, independent of kollet-start.

Standard input has a line of JSON for each case: the root to apply the configuration in,
and the names of the deliberate differences that this reading should have. The output has
a line for each: null, or why Kolla would fail.

It is written for comparison, not for use: paths are joined to the root, and a link that is
absolute would lead out of it.
"""

import glob
import json
import os
import re
import shutil
import sys

import yaml

SECTIONS = {
    "directories": {"path", "owner", "perm"},
    "files": {"path", "owner", "perm"},
    "config_files": {"source", "dest", "owner", "perm", "optional", "preserve_properties", "merge"},
    "permissions": {"path", "owner", "perm", "recurse", "exclude"},
}
FLAGS = {"optional", "preserve_properties", "merge", "recurse"}
DEFAULTS = "/etc/kolla/defaults"


class Contract:
    def __init__(self, root, differences):
        self.root = root
        self.links_stay = "links below a path" in differences
        self.strict = "unknown keys" in differences
        self.only_kolla = "defaults of other images" in differences
        self.once = "keys that are there twice" in differences
        self.users = self.table("etc/passwd")
        self.groups = self.table("etc/group")

    def table(self, name):
        with open(os.path.join(self.root, name)) as f:
            return {line.split(":")[0]: int(line.split(":")[2]) for line in f}

    def at(self, path):
        return self.root + path

    def owner(self, text):
        user, _, group = text.partition(":")
        return self.users[user], self.groups[group or user]

    def read(self):
        files = self.at("/var/lib/kolla/config_files/config")
        if not os.path.exists(files + ".yaml"):
            with open(files + ".json", encoding="utf-8") as f:
                return json.load(f)
        with open(files + ".yaml", encoding="utf-8") as f:
            text = f.read()
        if self.once:
            self.refuse_twice(yaml.compose(text, yaml.SafeLoader))
        return yaml.safe_load(text)

    def refuse_twice(self, node):
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value]
            if len(set(keys)) < len(keys):
                raise ValueError("a key is there twice")
            for _, value in node.value:
                self.refuse_twice(value)
        elif isinstance(node, yaml.SequenceNode):
            for item in node.value:
                self.refuse_twice(item)

    def apply(self):
        config = self.read()
        self.validate(config)
        for entry in config.get("directories", []):
            path, owner = self.at(entry["path"]), self.owner(entry["owner"])
            os.makedirs(path, exist_ok=True)
            self.give(path, owner, entry["perm"])
        for entry in config.get("files", []):
            self.make_file(entry)
        if not self.only_kolla or os.path.exists(self.at("/usr/local/bin/kolla_set_configs")):
            self.keep_defaults(config)
        for entry in config.get("config_files", []):
            self.copy_entry(entry)
        with open(self.at("/run_command"), "w") as f:
            f.write(config["command"])
        os.chmod(self.at("/run_command"), 0o644)
        for entry in config.get("permissions", []):
            self.set_permissions(entry)
        os.mknod(self.at("/configured"), 0o600)

    def validate(self, config):
        if not isinstance(config["command"], str):
            raise ValueError("command")
        for key, entries in config.items():
            if key == "command" or key.startswith("_"):
                continue
            if key not in SECTIONS:
                if self.strict:
                    raise ValueError("unknown key " + key)
                continue
            for entry in self.listed(entries) if self.strict else entries:
                self.validate_entry(key, entry)

    def validate_entry(self, section, entry):
        unknown = entry.keys() - SECTIONS[section]
        if section != "config_files":
            unknown = {key for key in unknown if self.strict and not key.startswith("_")}
        if unknown:
            raise ValueError("unknown keys %s in %s" % (unknown, section))
        if self.strict:
            for key in FLAGS & entry.keys():
                if not isinstance(entry[key], bool):
                    raise ValueError("no boolean: " + key)
            if not all(isinstance(text, str) for text in self.listed(entry.get("exclude", []))):
                raise ValueError("no text in exclude")
        if section == "config_files":
            need = {"source", "dest"}
            if not entry.get("preserve_properties"):
                need |= {"owner", "perm"}
        else:
            need = {"path", "owner"} if section == "permissions" else {"path", "owner", "perm"}
        if need - entry.keys():
            raise ValueError("missing keys in " + section)
        for key in ("path", "source", "dest"):
            if not entry.get(key, "/").startswith("/"):
                raise ValueError("a relative path")
        if entry.get("perm") is not None:
            int(entry["perm"], 8)
            if self.strict and entry["perm"].strip() != entry["perm"]:
                raise ValueError("a space in perm")

    def listed(self, value):
        if not isinstance(value, list):
            raise ValueError("no list: %r" % value)
        return value

    def give(self, path, owner, perm):
        """Failures are ignored, as on file systems that have no owners."""
        try:
            os.chown(path, *owner)
            if perm is not None:
                mode = int(perm, 8)
                if os.path.isdir(path):
                    mode |= (mode & 0o444) >> 2
                os.chmod(path, mode)
        except OSError:
            pass

    def make_file(self, entry):
        path, owner = self.at(entry["path"]), self.owner(entry["owner"])
        if os.path.islink(path) or os.path.isdir(path):
            raise ValueError("no file: " + path)
        if not os.path.exists(path):
            open(path, "x").close()
        self.give(path, owner, entry["perm"])

    def destination(self, entry, source):
        dest = entry["dest"]
        return dest + os.path.basename(source) if dest.endswith("/") else dest

    def keep_defaults(self, config):
        state = {}
        for entry in config.get("config_files", []):
            dest = self.destination(entry, entry["source"])
            if dest in state or not os.path.exists(self.at(entry["source"])):
                continue
            kept = None
            if os.path.exists(self.at(dest)):
                kept = DEFAULTS + dest
                self.replace(self.at(dest), self.at(kept), {"preserve_properties": True})
            state[dest] = {"source": dest, "preserve_properties": True, "dest": kept}
        os.makedirs(self.at(DEFAULTS), exist_ok=True)
        with open(self.at(DEFAULTS + "/state"), "w") as f:
            json.dump(state, f, indent=4)

    def copy_entry(self, entry):
        sources = glob.glob(self.at(entry["source"]))
        if not sources and not entry.get("optional"):
            raise ValueError("no source")
        for source in sources:
            self.replace(source, self.at(self.destination(entry, source)), entry)

    def replace(self, source, dest, entry):
        if not entry.get("merge"):
            self.delete(dest)
        os.makedirs(os.path.dirname(dest), exist_ok=True)
        self.copy(source, dest, entry)

    def delete(self, path):
        if os.path.isdir(path) and not os.path.islink(path.rstrip("/")):
            shutil.rmtree(path)
        elif os.path.lexists(path.rstrip("/")):
            os.unlink(path.rstrip("/"))

    def copy(self, source, dest, entry):
        if os.path.isdir(source):
            if not os.path.isdir(dest):
                self.delete(dest)
                os.mkdir(dest)
            self.keep_or_give(source, dest, entry)  # first: a link gets the group of a set-gid directory
            for name in os.listdir(source):
                self.copy(os.path.join(source, name), os.path.join(dest, name), entry)
            return
        self.delete(dest)
        if entry.get("merge") and entry.get("preserve_properties") and os.path.islink(source):
            os.symlink(os.readlink(source), dest)
            return
        shutil.copyfile(source, dest)
        self.keep_or_give(source, dest, entry)

    def keep_or_give(self, source, dest, entry):
        if entry.get("preserve_properties"):
            st = os.stat(source)
            os.chown(dest, st.st_uid, st.st_gid)
            shutil.copystat(source, dest)
        else:
            self.give(dest, self.owner(entry["owner"]), entry["perm"])

    def set_permissions(self, entry):
        owner = self.owner(entry["owner"])
        for top in glob.glob(self.at(entry["path"])):
            self.give(top, owner, entry.get("perm"))
            if not entry.get("recurse") or not os.path.isdir(top):
                continue
            for parent, dirs, files in os.walk(top):
                for name in dirs + files:
                    self.set_below(os.path.join(parent, name), owner, entry)

    def set_below(self, path, owner, entry):
        patterns = entry.get("exclude", [])
        if patterns and all(re.search(p, path[len(self.root):]) for p in patterns):
            return
        if self.links_stay and os.path.islink(path):
            os.lchown(path, *owner)
        else:
            self.give(path, owner, entry.get("perm"))


def main():
    os.umask(0o022)
    for line in sys.stdin:
        root, differences = json.loads(line)
        try:
            Contract(root, differences).apply()
            print("null")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, re.error, yaml.YAMLError) as err:
            print(json.dumps("%s: %s" % (type(err).__name__, err)))


main()
