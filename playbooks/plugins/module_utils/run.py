# Copyright the kollet authors
# SPDX-License-Identifier: Apache-2.0

"""Runs the kollet program and interprets its answers."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import json
import time

DONE, FAILED, INPUT, CHANGES, OPERATOR, LOCKED, DEFERRED = range(7)

STATES = {
    DONE: "done",
    FAILED: "as before",
    INPUT: "untouched",
    CHANGES: "done",
    OPERATOR: "needs an operator",
    LOCKED: "locked by another kollet process",
    DEFERRED: "as before",
}

MEANINGS = {
    FAILED: "the node is as it was before",
    INPUT: "nothing was changed",
    OPERATOR: (
        "the node needs an operator: it is neither on the new generation nor healthy on the old one;"
        " fix the cause, then run kollet recover"
    ),
    LOCKED: "nothing was changed; try again, or set lock_wait",
}

NOTHING_TO_DO = "nothing to do"


class Answer(object):
    """The result of one run of kollet."""

    def __init__(self, status, stdout, stderr):
        self.status = status
        self.stderr = stderr
        self.document = parse(stdout)

    @property
    def understood(self):
        """Whether the program ended normally and printed a result."""
        return self.status in STATES and self.document is not None

    @property
    def error(self):
        """The reason of a failure; None if there was none."""
        if isinstance(self.document, dict) and "exit" in self.document:
            return self.document.get("error")
        return None

    @property
    def result(self):
        """The result, also of a run that failed."""
        if self.error is None:
            return self.document
        return self.document.get("result")


def parse(text):
    """Return the JSON document that kollet printed; None if it printed none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


class Kollet(object):
    """The program, with the flags of all its commands."""

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
        """Run a command; retry for wait seconds while another kollet process holds the lock."""
        until = self.now() + wait
        while True:
            answer = self.ask(command, *args)
            left = until - self.now()
            if answer.status != LOCKED or left <= 0:
                return answer
            self.sleep(min(2, left))


def diff_of(plan):
    """Return a plan as text for Ansible's diff mode. Plans contain no secrets."""
    lines = []
    for change in (plan or {}).get("changes") or []:
        lines += change_lines(change)
    told = set(c["service"] for c in (plan or {}).get("changes") or [] if c.get("repair"))
    for drift in (plan or {}).get("drift") or []:
        if drift["service"] not in told:
            lines.append("%s: %s" % (drift["service"], drift["text"]))
    return "".join(line + "\n" for line in lines)


def change_lines(change):
    """Return the changes of one service."""
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
    hotfixes = [h for h in plan.get("hotfixes") or [] if h["state"] != "kept"]
    return bool(plan.get("changes") or plan.get("drift") or hotfixes)
