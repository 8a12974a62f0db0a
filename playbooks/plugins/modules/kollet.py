#!/usr/bin/python
# Copyright the kollet authors
# SPDX-License-Identifier: Apache-2.0

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
module: kollet
short_description: Upgrade a compute node as one, or roll it back
description:
  - Runs C(kollet) on the node. An upgrade ends with the whole node on the new generation and verified,
    or with the whole node back on the old one; running guests do not notice.
  - C(kollet) and the node file have to be there; the role C(kollet.kollet.kollet)
    puts them there.
version_added: "1.0.0"
author:
  - The kollet authors (@kollet)
options:
  action:
    description:
      - What to do. C(upgrade) and C(bootstrap) take the node to what its node file says, C(rollback) to an earlier
        generation, C(pull) fetches the images of the next upgrade ahead of it, C(recover) finishes or undoes an
        interrupted upgrade.
      - C(plan), C(status) and C(verify) change nothing. C(status) and C(verify) do not fail for what they find;
        use I(failed_when) with C(healthy) or C(drift).
    type: str
    required: true
    choices: [bootstrap, plan, pull, recover, rollback, status, upgrade, verify]
  tag:
    description:
      - Tag of images that name none, for this run.
      - Used by C(bootstrap), C(plan), C(pull) and C(upgrade).
    type: str
  images:
    description:
      - Images of services for this run, by service.
      - Used by C(bootstrap), C(plan), C(pull) and C(upgrade).
    type: dict
  pull:
    description:
      - Which images to ask their registry for, for this run. The node file's I(images.pull) counts otherwise.
      - Used by C(bootstrap), C(plan), C(pull) and C(upgrade).
    type: str
    choices: [missing, always, never]
  generation:
    description:
      - The generation to go back to. By default the one before the current one.
      - With a number a second run changes nothing. Without, it goes back to where the first one came from.
      - Used by C(rollback).
    type: int
  node:
    description:
      - What the node file will say. In check mode, and with C(plan), kollet plans with it in place of the node file,
        which does not say it yet.
      - It is not written to the node file.
    type: str
  jitter:
    description:
      - Wait a random time of at most so many seconds first, so that many nodes do not ask a registry at once.
      - Used by C(pull), and not in check mode.
    type: int
    default: 0
  lock_wait:
    description:
      - How many seconds to go on trying while another kollet is at work on the node. A kollet whose control machine
        went away is one.
    type: int
    default: 0
  executable:
    description:
      - The program, or its path.
    type: str
    default: kollet
  root:
    description:
      - A directory that holds the state and the node file, as C(/) does on a real node.
    type: path
  node_file:
    description:
      - Path of the node file, below I(root).
    type: path
    default: /etc/kollet/node.yaml
  engine:
    description:
      - Address of the engine's socket.
    type: str
  host:
    description:
      - Name of the node. By default its host name.
    type: str
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check_mode), when in diff mode
    support: full
  platform:
    description: Target OS/families that can be operated against
    support: full
    platforms: posix
notes:
  - Signals do not stop an upgrade half way. If the connection is lost or the control machine goes away, C(kollet)
    comes to one of an upgrade's two ends by itself.
"""

EXAMPLES = r"""
- name: Take the node to what its node file says
  kollet.kollet.kollet:
    action: upgrade
    lock_wait: 600

- name: See what an upgrade to another tag would change
  kollet.kollet.kollet:
    action: plan
    tag: 26.2.2-1
  diff: true

- name: Fetch its images ahead of the window
  kollet.kollet.kollet:
    action: pull
    tag: 26.2.2-1
    jitter: 600

- name: Go back to generation 7
  kollet.kollet.kollet:
    action: rollback
    generation: 7

- name: Wait until the node is healthy
  kollet.kollet.kollet:
    action: status
  register: node
  until: node.healthy
  retries: 10
  delay: 3
"""

RETURN = r"""
generation:
  description: The generation that the node runs now, 0 if none. Absent when it could not be found out.
  returned: except for C(pull) and C(plan)
  type: int
  sample: 8
outcome:
  description: How it ended, such as C(committed), C(nothing to do), C(rolled back) or C(discarded).
  returned: for C(bootstrap), C(upgrade) and C(rollback), and for C(recover) if there was something to recover
  type: str
  sample: committed
node_state:
  description: In which state the node is left, in words.
  returned: always
  type: str
  sample: as before
healthy:
  description: Whether every service is healthy and no upgrade was interrupted.
  returned: for C(status), and for what failed if the node still tells
  type: bool
interrupted:
  description: Whether an upgrade waits for C(recover).
  returned: for C(status), and for what failed if the node still tells
  type: bool
drift:
  description: What differs from the generation by somebody's hand.
  returned: for C(verify)
  type: list
  elements: dict
result:
  description: The document that C(kollet --output json) printed, in the form of the command that was run. In check mode
    that is C(plan) or C(status).
  returned: when kollet gave one, and it is a mapping
  type: dict
rc:
  description: 0, or kollet's exit status if it failed. 1 failed, 2 bad input, 4 needs an operator, 5 another kollet is
    at work.
  returned: always
  type: int
  sample: 0
seconds:
  description: How long kollet itself took.
  returned: always
  type: float
  sample: 2.31
stderr_lines:
  description: What kollet said meanwhile.
  returned: always
  type: list
  elements: str
"""

import os
import random
import tempfile
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.text.converters import to_native
from ansible_collections.kollet.kollet.plugins.module_utils.run import (
    CHANGES,
    DONE,
    MEANINGS,
    NOTHING_TO_DO,
    OPERATOR,
    STATES,
    Kollet,
    diff_of,
    has_changes,
)

AIMING = ("bootstrap", "plan", "pull", "upgrade")
CHANGING = ("bootstrap", "upgrade", "rollback")


def base_flags(params, node_file):
    """The flags that every command gets."""
    flags = ["--quiet"] if params["action"] in ("status", "verify") else []
    named = [
        ("--root", params["root"]),
        ("--node-file", node_file),
        ("--engine", params["engine"]),
        ("--host", params["host"]),
    ]
    for name, value in named:
        if value:
            flags += [name, value]
    return flags


def aim_flags(params):
    """The flags of commands that aim at what the node file says."""
    flags = []
    if params["tag"]:
        flags += ["--tag", params["tag"]]
    for service, image in sorted((params["images"] or {}).items()):
        flags += ["--image", "%s=%s" % (service, image)]
    if params["pull"]:
        flags += ["--pull", params["pull"]]
    return flags


class Node(object):
    """One task on one node."""

    def __init__(self, module):
        self.module = module
        self.params = module.params
        self.action = module.params["action"]
        self.kollet = None
        self.out = {"changed": False}

    def main(self):
        """Do it, and end the module."""
        planned = None
        if self.params["node"] and (self.module.check_mode or self.action == "plan"):
            planned = self.write_planned()
        try:
            executable = self.module.get_bin_path(self.params["executable"], required=True)
            flags = base_flags(self.params, planned or self.params["node_file"])
            self.kollet = Kollet(self.module.run_command, executable, flags)
            act = getattr(self, "check_" + self.action, None) if self.module.check_mode else None
            (act or getattr(self, "do_" + self.action))()
        finally:
            if planned:
                os.unlink(self.below(planned))
        self.module.exit_json(**self.out)

    def below(self, path):
        """A path on the node, below the root that kollet is told of."""
        return os.path.join(self.params["root"], path.lstrip("/")) if self.params["root"] else path

    def write_planned(self):
        """Put the node file to come beside the one that is there."""
        folder = os.path.dirname(self.params["node_file"])
        try:
            handle, path = tempfile.mkstemp(prefix=".node-", suffix=".yaml", dir=self.below(folder))
            with os.fdopen(handle, "w") as stream:
                stream.write(self.params["node"])
        except (IOError, OSError) as e:
            self.module.fail_json(
                msg="write the node file to plan with: %s" % to_native(e), rc=None, node_state=STATES[2]
            )
        return os.path.join(folder, os.path.basename(path))

    def take(self, answer, expected=(DONE,)):
        """Note what kollet answered; end here if it failed."""
        self.out.update(rc=answer.status, seconds=round(self.kollet.seconds, 3), stderr=answer.stderr)
        if isinstance(answer.result, dict):
            self.out["result"] = answer.result
        if not answer.understood:
            self.fail(
                "kollet ended with status %s and did not say how: %s"
                % (answer.status, answer.stderr.strip()),
                "unknown",
            )
        if answer.error is not None or answer.status not in expected:
            self.fail(
                answer.error or answer.stderr.strip(), STATES[answer.status], MEANINGS.get(answer.status)
            )
        # Ansible takes any other rc for a failure, and an answer such as 3 is none.
        self.out.update(rc=DONE, node_state=STATES[DONE])
        return answer.result

    def fail(self, why, state, meaning=None):
        """End as failed, with the state that the node is in."""
        result = self.out.get("result") or {}
        if self.action in CHANGING:
            self.out["outcome"] = result.get("outcome")
            self.out["changed"] = result.get("outcome") == "rolled back" or self.out.get("rc") == OPERATOR
            self.diff(result.get("plan"))
        status = self.kollet.ask("status").result if self.out.get("rc") != 2 else None
        if isinstance(status, dict):
            self.tell(status)
            if state == "unknown":
                state = (
                    "interrupted; the next kollet recovers it"
                    if status["interrupted"]
                    else "as kollet status tells"
                )
        self.out.update(node_state=state, seconds=round(self.kollet.seconds, 3))
        self.module.fail_json(msg="; ".join(part for part in (why, meaning) if part), **self.out)

    def tell(self, status):
        """Note what the node says of itself."""
        self.out.update(
            generation=status.get("generation"),
            healthy=status.get("healthy"),
            interrupted=status.get("interrupted"),
        )

    def diff(self, plan):
        """Note what changes, for diff mode."""
        text = diff_of(plan)
        if self.module._diff and text:
            self.out["diff"] = {"prepared": text}

    def change(self, *args):
        """Run a command that makes a generation."""
        result = self.take(self.kollet.change(self.params["lock_wait"], self.action, *args))
        self.out.update(
            outcome=result["outcome"], generation=result["to"], changed=result["outcome"] != NOTHING_TO_DO
        )
        self.diff(result["plan"])

    def do_bootstrap(self):
        self.change(*aim_flags(self.params))

    do_upgrade = do_bootstrap

    def do_rollback(self):
        number = self.params["generation"]
        self.change(*([str(number)] if number else []))

    def do_plan(self):
        plan = self.take(self.kollet.ask("plan", "--exit-code", *aim_flags(self.params)), (DONE, CHANGES))
        self.out["changed"] = has_changes(plan)
        self.diff(plan)

    check_bootstrap = check_upgrade = do_plan

    def do_pull(self):
        time.sleep(random.uniform(0, self.params["jitter"]))
        pulled = self.take(self.kollet.change(self.params["lock_wait"], "pull", *aim_flags(self.params)))
        self.out["changed"] = any(image["new"] for image in pulled["images"])

    def check_pull(self):
        plan = self.take(self.kollet.ask("plan", *aim_flags(self.params)))
        self.out["changed"] = any((c.get("image") or {}).get("pull") for c in plan["changes"])

    def do_recover(self):
        found = self.take(self.kollet.change(self.params["lock_wait"], "recover"))
        self.out.update(changed=found["found"], generation=found["current"])
        if found["found"]:
            self.out["outcome"] = found["outcome"]

    def check_recover(self):
        self.do_status()
        self.out["changed"] = self.out["interrupted"]

    def check_rollback(self):
        """kollet has no plan for a rollback: tell whether it could be done."""
        entries = self.take(self.kollet.ask("history"))
        current = next((e for e in entries if e["current"]), None)
        number = self.params["generation"] or (current or {}).get("from")
        if not number:
            self.fail("there is no generation to go back to", STATES[2])
        if not any(e["generation"] == number and e["kept"] for e in entries):
            self.fail("generation %s is not on this node any more" % number, STATES[2])
        there = number in (current["generation"], rolled_back_to(current))
        self.out.update(changed=not there, generation=current["generation"])

    def do_status(self):
        self.tell(self.take(self.kollet.ask("status")))

    def do_verify(self):
        found = self.take(self.kollet.ask("verify"), (DONE, 1))
        self.out.update(drift=found["drift"], generation=found["generation"])


def rolled_back_to(entry):
    """The generation that this one equals, if a rollback made it."""
    words = (entry.get("reason") or "").split()
    return int(words[-1]) if words[:2] == ["rollback", "to"] else None


def main():
    module = AnsibleModule(
        argument_spec=dict(
            action=dict(
                type="str",
                required=True,
                choices=["bootstrap", "plan", "pull", "recover", "rollback", "status", "upgrade", "verify"],
            ),
            tag=dict(type="str"),
            images=dict(type="dict"),
            pull=dict(type="str", choices=["missing", "always", "never"]),
            generation=dict(type="int"),
            node=dict(type="str"),
            jitter=dict(type="int", default=0),
            lock_wait=dict(type="int", default=0),
            executable=dict(type="str", default="kollet"),
            root=dict(type="path"),
            node_file=dict(type="path", default="/etc/kollet/node.yaml"),
            engine=dict(type="str"),
            host=dict(type="str"),
        ),
        supports_check_mode=True,
    )
    Node(module).main()


if __name__ == "__main__":
    main()
