#!/usr/bin/python
# Copyright the kollet authors
# SPDX-License-Identifier: Apache-2.0

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
module: kollet
short_description: Upgrade a compute node atomically, or roll it back
description:
  - Runs C(kollet) on the node. An upgrade ends with the whole node on the new generation and verified,
    or with the whole node back on the old one. Running guests are not affected.
  - C(kollet) and the node file must exist on the node. The role C(kollet.kollet.kollet) installs them.
version_added: "1.0.0"
author:
  - The kollet authors (@kollet)
options:
  action:
    description:
      - What to do. C(upgrade) and C(bootstrap) apply the node file, C(rollback) returns to an earlier generation,
        C(pull) pulls the images of the next upgrade, C(recover) finishes or undoes an interrupted upgrade.
      - C(adopt) takes the node over from kolla-ansible. If there is no node file on the node, kollet writes one. In
        check mode, it fails if something cannot be taken over. It changes nothing on a node that kollet runs already.
      - C(plan), C(status) and C(verify) change nothing. C(status) and C(verify) do not fail if the node is unhealthy
        or has drift. Use I(failed_when) with C(healthy) or C(drift).
    type: str
    required: true
    choices: [adopt, bootstrap, plan, pull, recover, rollback, status, upgrade, verify]
  tag:
    description:
      - Tag for images without a tag. The node keeps it until the node file has the same tag, another one is given,
        or I(drop_tag).
      - Used by C(bootstrap), C(plan), C(pull) and C(upgrade).
    type: str
  images:
    description:
      - Images, by service. The node keeps each until the node file has the same image, another one is given, or
        I(drop_images).
      - Used by C(bootstrap), C(plan), C(pull) and C(upgrade).
    type: dict
  drop_tag:
    description:
      - Return to I(images.tag) of the node file.
      - Used by C(plan), C(pull) and C(upgrade).
    type: bool
    default: false
  drop_images:
    description:
      - Services that return to the node file's image.
      - Used by C(plan), C(pull) and C(upgrade).
    type: list
    elements: str
  pull:
    description:
      - When to ask the registry, for this run. The default is I(images.pull_policy) in the node file.
      - Used by C(bootstrap), C(plan), C(pull) and C(upgrade).
    type: str
    choices: [missing, always, never]
  generation:
    description:
      - The generation to roll back to. By default the one before the current one.
      - With a number, a second run changes nothing. Without a number, each run rolls back one generation more.
      - C(0) gives a node that was taken over back to kolla-ansible.
      - Used by C(rollback).
    type: int
  force:
    description:
      - Continue although a precheck fails or operations are under way, with a warning.
      - Used by C(adopt), C(upgrade) and C(rollback).
    type: bool
    default: false
  include:
    description:
      - Containers of kolla-ansible to take over that would stay otherwise.
      - Used by C(adopt).
    type: list
    elements: str
  exclude:
    description:
      - Containers that stay with kolla-ansible.
      - Used by C(adopt).
    type: list
    elements: str
  node:
    description:
      - Content of the new node file. In check mode, and with C(plan), kollet plans with it instead of the node file
        on the node.
      - The module does not write it to the node file.
    type: str
  jitter:
    description:
      - Maximum random delay in seconds, so that not all nodes use the registry at the same time.
      - Used by C(pull), except in check mode.
    type: int
    default: 0
  lock_wait:
    description:
      - How many seconds to wait while another kollet process holds the node's lock, for example one whose control
        machine lost its connection.
    type: int
    default: 0
  executable:
    description:
      - Name or path of the program.
    type: str
    default: kollet
  root:
    description:
      - A directory that contains state and node file, instead of C(/).
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
      - Name of the node. The default is its host name.
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
  - If the connection is lost or the control machine dies, C(kollet) continues on the node until the upgrade is
    committed or rolled back.
"""

EXAMPLES = r"""
- name: Apply the node file
  kollet.kollet.kollet:
    action: upgrade
    lock_wait: 600

- name: Show what an upgrade to another tag would change
  kollet.kollet.kollet:
    action: plan
    tag: 26.2.2-1
  diff: true

- name: Pull its images before the window
  kollet.kollet.kollet:
    action: pull
    tag: 26.2.2-1
    jitter: 600

- name: Roll back to generation 7
  kollet.kollet.kollet:
    action: rollback
    generation: 7

- name: Take a node over from kolla-ansible
  kollet.kollet.kollet:
    action: adopt
    exclude: [ceilometer_compute]

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
  description: The generation that the node runs now, 0 if none. Missing if it could not be determined.
  returned: except for C(pull) and C(plan)
  type: int
  sample: 8
outcome:
  description: How the command ended, such as C(committed), C(nothing to do), C(rolled back), C(discarded) or
    C(deferred).
  returned: for C(adopt), C(bootstrap), C(upgrade) and C(rollback), and for C(recover) if there was something to recover
  type: str
  sample: committed
deferred:
  description: Whether the node deferred the change because operations on its servers are under way, as C(quiesce.on_busy)
    in its node file asks. The node is as before, and the module does not fail.
  returned: for C(adopt), C(bootstrap), C(upgrade) and C(rollback), if it is not a failure
  type: bool
why:
  description: The operations for which the change was deferred.
  returned: if C(deferred)
  type: str
node_state:
  description: The state of the node after the command, as text.
  returned: always
  type: str
  sample: as before
healthy:
  description: Whether every service is healthy and no upgrade was interrupted.
  returned: for C(status), and after a failure if the node can still be asked
  type: bool
interrupted:
  description: Whether an upgrade was interrupted and needs C(recover). C(verify) fails then.
  returned: for C(status) and C(plan), and after a failure if the node can still be asked
  type: bool
drift:
  description: Differences between the generation and what runs.
  returned: for C(verify)
  type: list
  elements: dict
result:
  description: The document that C(kollet --output json) printed. Its form depends on the command; in check mode the
    command is C(plan), C(status) or C(history).
  returned: if kollet printed one and it is a mapping
  type: dict
rc:
  description: 0, or kollet's exit status if it failed. 1 failed, 2 invalid input, 4 needs an operator, 5 another kollet
    process holds the lock. An upgrade that was deferred (6) is not an error.
  returned: always
  type: int
  sample: 0
seconds:
  description: Run time of kollet itself.
  returned: always
  type: float
  sample: 2.31
stderr_lines:
  description: What kollet printed on standard error.
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
    DEFERRED,
    DONE,
    FAILED,
    MEANINGS,
    NOTHING_TO_DO,
    OPERATOR,
    STATES,
    Kollet,
    diff_of,
    has_changes,
)

CHANGING = ("adopt", "bootstrap", "upgrade", "rollback")


def base_flags(params, node_file):
    """Return the flags of every command."""
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
    """Return the flags of commands that apply the node file."""
    flags = []
    if params["tag"]:
        flags += ["--tag", params["tag"]]
    for service, image in sorted((params["images"] or {}).items()):
        flags += ["--image", "%s=%s" % (service, image)]
    if params["pull"]:
        flags += ["--pull", params["pull"]]
    if params["action"] == "bootstrap":
        return flags
    if params["drop_tag"]:
        flags += ["--drop-tag"]
    for service in params["drop_images"] or []:
        flags += ["--drop-image", service]
    return flags


def kept_hotfix(hotfix):
    """Say of a hotfix how it differs from the node file, and how to drop it."""
    service = hotfix.get("service")
    return "hotfix: %s %s instead of the node file's %s; %s drops it" % (
        "the image of %s is" % service if service else "the tag is",
        hotfix["value"],
        hotfix.get("node_file") or "value",
        "drop_images" if service else "drop_tag",
    )


class Node(object):
    """One task on one node."""

    def __init__(self, module):
        self.module = module
        self.params = module.params
        self.action = module.params["action"]
        self.kollet = None
        self.out = {"changed": False}

    def main(self):
        """Run the action, then exit the module."""
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
        """Return a path on the node, below root."""
        return os.path.join(self.params["root"], path.lstrip("/")) if self.params["root"] else path

    def write_planned(self):
        """Write the new node file beside the existing one."""
        folder = os.path.dirname(self.params["node_file"])
        try:
            handle, path = tempfile.mkstemp(prefix=".node-", suffix=".yaml", dir=self.below(folder))
            with os.fdopen(handle, "w") as stream:
                stream.write(self.params["node"])
        except (IOError, OSError) as e:
            self.module.fail_json(
                msg="write a temporary node file: %s" % to_native(e), rc=None, node_state=STATES[2]
            )
        return os.path.join(folder, os.path.basename(path))

    def take(self, answer, expected=(DONE,)):
        """Record kollet's answer, and fail the module if kollet failed."""
        self.out.update(rc=answer.status, seconds=round(self.kollet.seconds, 3), stderr=answer.stderr)
        if isinstance(answer.result, dict):
            self.out["result"] = answer.result
        if not answer.understood:
            self.fail(
                "kollet exited with status %s and printed no result: %s"
                % (answer.status, answer.stderr.strip()),
                "unknown",
            )
        if answer.error is not None or answer.status not in expected:
            self.fail(
                answer.error or answer.stderr.strip(), STATES[answer.status], MEANINGS.get(answer.status)
            )
        # Ansible treats any other rc as a failure, but 3 (changes) is not one.
        self.out.update(rc=DONE, node_state=STATES[DONE])
        return answer.result

    def fail(self, why, state, meaning=None):
        """Fail the module and report the node's state."""
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
                    "interrupted; the next kollet command recovers it"
                    if status["interrupted"]
                    else "as kollet status reports"
                )
        self.out.update(node_state=state, seconds=round(self.kollet.seconds, 3))
        self.module.fail_json(msg="; ".join(part for part in (why, meaning) if part), **self.out)

    def tell(self, status):
        """Add the node's status to the result."""
        self.out.update(
            generation=status.get("generation"),
            healthy=status.get("healthy"),
            interrupted=status.get("interrupted"),
        )

    def diff(self, plan):
        """Add the changes to the result, for diff mode, and warn of hotfixes that stay."""
        for hotfix in (plan or {}).get("hotfixes") or []:
            if hotfix["state"] == "kept":
                self.module.warn(kept_hotfix(hotfix))
        text = diff_of(plan)
        if self.module._diff and text:
            self.out["diff"] = {"prepared": text}

    def change(self, *args):
        """Run a command that creates a generation."""
        answer = self.kollet.change(self.params["lock_wait"], self.action, *args)
        if answer.status == DEFERRED and answer.understood:
            self.defer(answer)
            return
        result = self.take(answer)
        self.out.update(
            outcome=result["outcome"],
            generation=result["to"],
            changed=result["outcome"] != NOTHING_TO_DO,
            deferred=False,
        )
        self.diff(result["plan"])

    def defer(self, answer):
        """Report that the node put the change off, which is what its node file asks for."""
        self.out.update(
            rc=DONE,
            seconds=round(self.kollet.seconds, 3),
            stderr=answer.stderr,
            result=answer.result,
            outcome=answer.result["outcome"],
            generation=answer.result["to"],
            deferred=True,
            why=answer.error,
            node_state=STATES[DEFERRED],
        )
        self.module.warn(answer.error)

    def force(self):
        return ["--force"] if self.params["force"] else []

    def do_bootstrap(self):
        self.change(*aim_flags(self.params))

    def do_upgrade(self):
        self.change(*aim_flags(self.params), *self.force())

    def do_rollback(self):
        number = self.params["generation"]
        self.change(*([str(number)] if number is not None else []), *self.force())

    def adopt_flags(self):
        """Return the flags that choose what is taken over."""
        flags = []
        for name in ("include", "exclude"):
            for container in self.params[name] or []:
                flags += ["--" + name, container]
        return flags

    def taken_over(self):
        """Ask whether kollet runs the node; the services of generation 0 are kolla-ansible's."""
        self.do_status()
        return any(service["generation"] > 0 for service in self.out["result"]["services"])

    def do_adopt(self):
        if self.taken_over():
            self.out.update(outcome=NOTHING_TO_DO, deferred=False)
        else:
            self.change(*self.adopt_flags(), *self.force())

    def check_adopt(self):
        if self.taken_over():
            return
        proposal = self.take(self.kollet.ask("adopt", "--plan", *self.adopt_flags()), (DONE, FAILED))
        if proposal["blocked"]:
            self.fail("; ".join(finding_text(f) for f in proposal["blocked"]), STATES[FAILED])
        self.out["changed"] = True
        if self.module._diff:
            self.out["diff"] = {"prepared": proposal["node_file"]}

    def do_plan(self):
        plan = self.take(self.kollet.ask("plan", "--exit-code", *aim_flags(self.params)), (DONE, CHANGES))
        self.out["interrupted"] = plan.get("interrupted", False)
        self.out["changed"] = has_changes(plan) or self.out["interrupted"]
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
        """Report whether a rollback is possible: kollet has no plan for one."""
        if self.params["generation"] == 0:
            self.check_return()
            return
        entries = self.take(self.kollet.ask("history"), (DONE, FAILED))
        current = next((e for e in entries if e["current"]), None)
        number = self.params["generation"] or (current or {}).get("from")
        if not number:
            self.fail("there is no generation to roll back to", STATES[2])
        if not any(e["generation"] == number and e["kept"] for e in entries):
            self.fail("generation %s is no longer on this node" % number, STATES[2])
        for e in entries:
            if e.get("problem") and (e["current"] or e["generation"] == number):
                self.out["rc"] = OPERATOR
                self.fail(e["problem"], STATES[OPERATOR], MEANINGS[OPERATOR])
        there = number in (current["generation"], rolled_back_to(current))
        self.out.update(changed=not there, generation=current["generation"])

    def check_return(self):
        """Report whether the node would be given back to kolla-ansible."""
        entries = self.take(self.kollet.ask("history"), (DONE, FAILED))
        if not any(e.get("reason") == "adopt" for e in entries):
            self.fail("kollet has not taken this node over from kolla-ansible", STATES[2])
        self.out["changed"] = self.taken_over()

    def do_status(self):
        self.tell(self.take(self.kollet.ask("status")))

    def do_verify(self):
        found = self.take(self.kollet.ask("verify"), (DONE, 1))
        self.out.update(drift=found["drift"], generation=found["generation"])
        if found.get("interrupted"):
            self.fail("an upgrade was interrupted; run kollet.kollet.recover", "unknown")
        if found.get("problem"):
            self.fail(found["problem"], "unknown")


def finding_text(finding):
    """Return one of kollet adopt's findings as a line."""
    text = finding["text"]
    if finding.get("container"):
        text = "%s: %s" % (finding["container"], text)
    if finding.get("remedy"):
        text += "; " + finding["remedy"]
    return text


def rolled_back_to(entry):
    """Return the generation that this one equals, if a rollback created it."""
    words = (entry.get("reason") or "").split()
    return int(words[-1]) if words[:2] == ["rollback", "to"] else None


def main():
    module = AnsibleModule(
        argument_spec=dict(
            action=dict(
                type="str",
                required=True,
                choices=[
                    "adopt",
                    "bootstrap",
                    "plan",
                    "pull",
                    "recover",
                    "rollback",
                    "status",
                    "upgrade",
                    "verify",
                ],
            ),
            tag=dict(type="str"),
            images=dict(type="dict"),
            drop_tag=dict(type="bool", default=False),
            drop_images=dict(type="list", elements="str"),
            pull=dict(type="str", choices=["missing", "always", "never"]),
            generation=dict(type="int"),
            force=dict(type="bool", default=False),
            include=dict(type="list", elements="str"),
            exclude=dict(type="list", elements="str"),
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
