# Copyright the kollet authors
# SPDX-License-Identifier: Apache-2.0

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
name: tree
author: The kollet authors (@kollet)
version_added: "1.0.0"
short_description: Read the files below a directory on the control machine
description:
  - Returns one dictionary per directory, with the content of every file by its path below the directory.
  - Files that are encrypted with Ansible's vault are decrypted.
options:
  _terms:
    description: Directories. An empty string returns an empty dictionary.
    required: true
"""

EXAMPLES = r"""
- name: List the overrides
  ansible.builtin.debug:
    msg: "{{ lookup('kollet.kollet.tree', inventory_dir ~ '/config') | list }}"
"""

RETURN = r"""
_raw:
  description: One dictionary of files per directory.
  type: list
  elements: dict
"""

import os

from ansible.errors import AnsibleLookupError
from ansible.module_utils.common.text.converters import to_text
from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    """The entry point for Ansible."""

    def run(self, terms, variables=None, **kwargs):
        return [self.read(term) if term else {} for term in terms]

    def read(self, top):
        if not os.path.isdir(top):
            raise AnsibleLookupError("%s is not a directory; set it to one, or leave it empty" % top)
        files = {}
        for folder, folders, names in os.walk(top):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                files[os.path.relpath(path, top)] = self.content(path)
        return files

    def content(self, path):
        with open(self._loader.get_real_file(path), "rb") as stream:
            data = stream.read()
        try:
            return to_text(data, errors="strict")
        except UnicodeError:
            raise AnsibleLookupError("%s is not UTF-8 text" % path)
