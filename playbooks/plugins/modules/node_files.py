#!/usr/bin/python
# Copyright the kollet authors
# SPDX-License-Identifier: Apache-2.0

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
module: node_files
short_description: Write a node's configuration
description:
  - Writes the node file, its secrets, overrides and templates in one task. Separate tasks and copies would make
    playbooks slow in large fleets.
  - Does not change running services. C(kollet upgrade) applies what was written.
  - Each file is replaced atomically, the node file last.
version_added: "1.0.0"
author:
  - The kollet authors (@kollet)
options:
  node:
    description: Content of the node file.
    type: str
    required: true
  secrets:
    description:
      - Values of secrets, by name. They are written to files in C(secrets) that only root can read.
      - Other files in C(secrets) are removed. Without this option, C(secrets) is not changed.
    type: dict
  config:
    description:
      - Overrides, by their path below C(config). Other files in C(config) are removed.
      - Without this option, C(config) is not changed.
    type: dict
  templates:
    description:
      - Custom templates, by their path below C(templates). Other files in C(templates) are removed.
      - Without this option, C(templates) is not changed.
    type: dict
  path:
    description: The directory on the node.
    type: path
    default: /etc/kollet
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode
    support: full
    details: Diffs do not contain secrets.
  platform:
    description: Target OS/families that can be operated against
    support: full
    platforms: posix
"""

EXAMPLES = r"""
- name: Write the node's configuration
  kollet.kollet.node_files:
    node: "{{ kollet_node | to_nice_yaml }}"
    secrets:
      rabbit_password: "{{ vault_rabbit_password }}"
    config: "{{ lookup('kollet.kollet.tree', inventory_dir ~ '/config') }}"
"""

RETURN = r"""
files:
  description: The files that were written or removed.
  returned: always
  type: list
  elements: str
  sample: [/etc/kollet/node.yaml]
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.text.converters import to_native
from ansible_collections.kollet.kollet.plugins.module_utils.files import Tree


def trees(params):
    """Return for each directory: the tree, its files, and whether other files are removed."""
    top = params["path"]
    plan = []
    for name, folder_mode, file_mode in (
        ("secrets", 0o700, 0o400),
        ("config", 0o755, 0o644),
        ("templates", 0o755, 0o644),
    ):
        if params[name] is not None:
            files = dict((key, to_native(value)) for key, value in params[name].items())
            plan.append((Tree(os.path.join(top, name), folder_mode, file_mode), files, True))
    plan.append((Tree(top, 0o755, 0o600), {"node.yaml": params["node"]}, False))
    return plan


def problems(params):
    """Return names that would be outside of their directory."""
    found = []
    for option in ("secrets", "config", "templates"):
        for name in params[option] or {}:
            parts = name.split("/")
            if ".." in parts or "" in parts or option == "secrets" and len(parts) > 1:
                found.append("%s: %r is not a path below it" % (option, name))
    return found


def difference(path, before, after, hidden):
    """Return a file's entry for diff mode."""
    if hidden:
        before, after = ["" if text is None else "(a secret)\n" for text in (before, after)]
    return {
        "before_header": path,
        "after_header": path,
        "before": before or "",
        "after": after or "",
    }


def run(module):
    """Write the files; return the module's result."""
    out = {"changed": False, "files": [], "diff": []}
    for tree, files, only in trees(module.params):
        changes = tree.changes(files, only)
        out["changed"] = out["changed"] or bool(changes) or not tree.ready()
        out["files"] += [path for path, dummy, dummy2 in changes]
        hidden = os.path.basename(tree.path) == "secrets"
        out["diff"] += [difference(path, before, after, hidden) for path, before, after in changes]
        if not module.check_mode:
            tree.apply(changes)
    return out


def main():
    module = AnsibleModule(
        argument_spec=dict(
            node=dict(type="str", required=True),
            secrets=dict(type="dict", no_log=True),
            config=dict(type="dict"),
            templates=dict(type="dict"),
            path=dict(type="path", default="/etc/kollet"),
        ),
        supports_check_mode=True,
    )
    wrong = problems(module.params)
    if wrong:
        module.fail_json(msg="; ".join(wrong))
    try:
        out = run(module)
    except (IOError, OSError) as e:
        module.fail_json(msg="write what the node should run: %s" % to_native(e))
    if not module._diff:
        del out["diff"]
    module.exit_json(**out)


if __name__ == "__main__":
    main()
