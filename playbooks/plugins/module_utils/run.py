# Copyright the kollet authors
# SPDX-License-Identifier: Apache-2.0

"""Runs the kollet program and tells what its answer means."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import json
import time

DONE, FAILED, INPUT, CHANGES, OPERATOR, LOCKED = range(6)

STATES = {
    DONE: "done",
    FAILED: "as before",
    INPUT: "untouched",
    CHANGES: "done",
    OPERATOR: "needs an operator",
    LOCKED: "another kollet is at work",
}

MEANINGS = {
    FAILED: "the node is as it was before",
    INPUT: "nothing was touched",
    OPERATOR: (
        "the node needs an operator: it is neither wholly on the new generation nor"
        " healthy on the old one; mend the cause and run kollet recover"
    ),
    LOCKED: "nothing was touched; try again, or set lock_wait",
}

NOTHING_TO_DO = "nothing to do"


class Answer(object):
    """What one run of kollet gave."""

    def __init__(self, status, stdout, stderr):
        self.status = status
        self.stderr = stderr
        self.document = parse(stdout)

    @property
    def understood(self):
        """Whether the program came to an end of its own and said how."""
        return self.status in STATES and self.document is not None

    @property
    def error(self):
        """Why it failed; None if it did not."""
        if isinstance(self.document, dict) and "exit" in self.document:
            return self.document.get("error")
        return None

    @property
    def result(self):
        """The result, also that of a run which failed."""
        if self.error is None:
            return self.document
        return self.document.get("result")


def parse(text):
    """The one JSON document that kollet prints; None if there is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


class Kollet(object):
    """The program with the flags that all of its commands get."""

    def __init__(self, run, executable, flags, sleep=time.sleep, now=time.time):
        self.run = run
        self.base = [executable, "--output", "json"] + flags
        self.sleep = sleep
        self.now = now
        self.seconds = 0.0

    def ask(self, command, *args):
        """Run a command once."""
        begun = self.now()
        status, stdout, stderr = self.run(self.base + [command] + list(args))
        self.seconds += self.now() - begun
        return Answer(status, stdout, stderr)

    def change(self, wait, command, *args):
        """Run a command, for so many seconds again while another kollet works."""
        until = self.now() + wait
        while True:
            answer = self.ask(command, *args)
            left = until - self.now()
            if answer.status != LOCKED or left <= 0:
                return answer
            self.sleep(min(2, left))


def diff_of(plan):
    """A plan as text for Ansible's diff mode: kollet left secrets out of it."""
    lines = []
    for change in (plan or {}).get("changes") or []:
        lines += change_lines(change)
    told = set(c["service"] for c in (plan or {}).get("changes") or [] if c.get("repair"))
    for drift in (plan or {}).get("drift") or []:
        if drift["service"] not in told:
            lines.append("%s: %s" % (drift["service"], drift["text"]))
    return "".join(line + "\n" for line in lines)


def change_lines(change):
    """What happens to one service."""
    lines = ["%s: %s" % (change["service"], change["action"])]
    image = change.get("image")
    if image:
        if image.get("from") and image["from"] != image["to"]:
            lines.append("-   image %s" % image["from"])
        lines.append("+   image %s%s" % (image["to"], " (to be pulled)" if image.get("pull") else ""))
    lines += ["    setting %s" % s for s in change.get("spec") or []]
    lines += ["    repair %s" % r for r in change.get("repair") or []]
    for entry in change.get("files") or []:
        note = ": " + entry["note"] if entry.get("note") else ""
        lines.append("    file %s%s" % (entry["path"], note))
        lines += (entry.get("diff") or "").splitlines()
    return lines


def has_changes(plan):
    """Whether an upgrade would do anything."""
    return bool(plan.get("changes") or plan.get("drift"))
