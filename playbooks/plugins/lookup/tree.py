# Copyright the kollet authors
# SPDX-License-Identifier: Apache-2.0

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
name: tree
author: The kollet authors (@kollet)
version_added: "1.0.0"
short_description: The files below a directory of the control machine
description:
  - Returns one dictionary for each directory, with the content of every file by its path below the directory.
  - Files that are encrypted with Ansible's vault are decrypted.
options:
  _terms:
    description: Directories. An empty string gives an empty dictionary.
    required: true
"""

EXAMPLES = r"""
- name: Name the overrides
  ansible.builtin.debug:
    msg: "{{ lookup('kollet.kollet.tree', inventory_dir ~ '/config') | list }}"
"""

RETURN = r"""
_raw:
  description: For each directory a dictionary of its files.
  type: list
  elements: dict
"""

import os

from ansible.errors import AnsibleLookupError
from ansible.module_utils.common.text.converters import to_text
from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    """What Ansible asks for."""

    def run(self, terms, variables=None, **kwargs):
        return [self.read(term) if term else {} for term in terms]

    def read(self, top):
        if not os.path.isdir(top):
            raise AnsibleLookupError("%s is no directory: set it to one, or to nothing" % top)
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
            raise AnsibleLookupError("%s is not text in UTF-8" % path)
