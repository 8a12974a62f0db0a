# Copyright the kollet authors
# SPDX-License-Identifier: Apache-2.0

"""Filters for the roles and playbooks. They run on the control machine."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import os


def secret_files(secrets, folder):
    """Return the node file's entries for secrets in a directory of the node."""
    return dict((name, {"file": os.path.join(folder, name)}) for name in sorted(secrets))


def table(rows, columns):
    """Format rows (dictionaries) as lines of an aligned table."""
    cells = [[column.upper() for column in columns]]
    cells += [[text(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return ["  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in cells]


def text(value):
    """Format a cell as one line."""
    if value is None or value == "":
        return "-"
    return str(value).splitlines()[0] if str(value).strip() else "-"


def totals(rows, column):
    """Count the values of a column, as text, in the order of their first occurrence."""
    counts = {}
    order = []
    for row in rows:
        value = text(row.get(column))
        if value not in counts:
            order.append(value)
        counts[value] = counts.get(value, 0) + 1
    return ", ".join("%d %s" % (counts[value], value) for value in order)


def reports(hosts, hostvars, lost=()):
    """Return one row per host of a play; lost hosts became unreachable during it."""
    rows = []
    for host in hosts:
        row = {"result": "untouched"}
        if "kollet_report" in hostvars[host]:
            row = dict(hostvars[host]["kollet_report"])
        elif host in lost:
            row = {"result": "failed", "why": "it failed or became unreachable; see above"}
        row["node"] = host
        rows.append(row)
    return rows


def reachable(hosts, hostvars):
    """Return the hosts that could be reached when the play began."""
    return [host for host in hosts if not hostvars[host].get("kollet_before", {}).get("unreachable")]


def standing(hosts, hostvars):
    """Return one row per host, with the generation that it runs before the upgrade."""
    return [
        {"node": host, "from": hostvars[host].get("kollet_before", {}).get("generation", 0)} for host in hosts
    ]


def failure(result, before, change):
    """Return the report for a node that failed; result is that of the failed task."""
    row = {
        "result": "failed",
        "why": result.get("msg") or "it is not healthy",
        "from": before.get("generation", 0),
        "to": change.get("generation", before.get("generation", 0)),
        "seconds": change.get("seconds"),
    }
    if before.get("unreachable") or change.get("unreachable") or "became unreachable" in row["why"]:
        row.update(result="unreachable", to=None)
    elif change.get("rc") == 4:
        row["result"] = "needs an operator"
    elif change.get("outcome") == "rolled back":
        row["result"] = "rolled back"
    return row


def noted(result, changed="", unchanged=""):
    """Return the report for a node after a task that does not create a generation."""
    row = {"to": result.get("generation"), "seconds": result.get("seconds")}
    if result.get("unreachable"):
        row.update(result="unreachable", why="it could not be reached")
    elif result.get("drift"):
        row.update(result="differs", why="; ".join(d["text"] for d in result["drift"]))
    elif result.get("failed"):
        row.update(result="needs an operator" if result.get("rc") == 4 else "failed", why=result.get("msg"))
    else:
        row["result"] = changed if result.get("changed") else unchanged
    return row


def standing_of(result, require_healthy=False):
    """Return a node's row for the table of the fleet."""
    if result.get("unreachable"):
        return noted(result)
    status = result["result"]
    services = status.get("services") or []
    unhealthy = [s for s in services if s["health"] not in ("healthy", "none")]
    row = {
        "result": "healthy",
        "generation": status["generation"],
        "since": status["since"][:19].replace("T", " "),
        "services": "%d of %d" % (len(services) - len(unhealthy), len(services)),
        "guests": status["guests"],
        "engine": "%s %s" % (status["engine"]["name"], status["engine"]["version"]),
    }
    if status["interrupted"]:
        row.update(result="not healthy", why="an upgrade was interrupted; run kollet.kollet.recover")
    elif status["generation"] == 0:
        row.update(
            result="not healthy",
            since=None,
            why="no generation yet; run kollet.kollet.bootstrap, or kollet.kollet.adopt if kolla-ansible runs it",
        )
    elif not status["healthy"]:
        row.update(
            result="not healthy",
            why="; ".join("%s: %s" % (s["name"], s.get("why") or s["state"]) for s in unhealthy),
        )
    if require_healthy and row["result"] != "healthy":
        row["result"] = "failed"
    return row


def begin_wave(record, rows):
    """Add the nodes of a wave, with the generation that each runs before it, to a window's record.

    A node that is already in the record was upgraded by an earlier run of the same
    window and keeps its entry.
    """
    nodes = dict(record.get("nodes") or {})
    wave = max([entry["wave"] for entry in nodes.values()] + [0]) + 1
    for row in rows:
        if row["node"] not in nodes:
            nodes[row["node"]] = {"from": row["from"], "wave": wave}
    return {"nodes": nodes}


def end_wave(record, rows):
    """Add the results of a wave to a window's record, and remove nodes that did not change.

    A node that had nothing to do or deferred its upgrade, but runs another generation than its entry says, was
    changed by an earlier run that ended before it could record that. It stays.
    """
    nodes = dict((name, dict(entry)) for name, entry in (record.get("nodes") or {}).items())
    for row in rows:
        entry = nodes.get(row["node"])
        if entry is None:
            continue
        if row["result"] not in ("nothing to do", "deferred"):
            entry["result"] = row["result"]
        elif row.get("to") == entry["from"]:
            del nodes[row["node"]]
    return {"nodes": nodes}


def window_nodes(record, scope):
    """Return the generation to roll back to for each node of the last wave, or of the window."""
    nodes = record.get("nodes") or {}
    last = max([entry["wave"] for entry in nodes.values()] + [0])
    return dict(
        (name, entry["from"]) for name, entry in nodes.items() if scope == "all" or entry["wave"] == last
    )


class FilterModule(object):
    """The entry point for Ansible."""

    def filters(self):
        return {
            "secret_files": secret_files,
            "table": table,
            "totals": totals,
            "reports": reports,
            "reachable": reachable,
            "standing": standing,
            "failure": failure,
            "noted": noted,
            "standing_of": standing_of,
            "begin_wave": begin_wave,
            "end_wave": end_wave,
            "window_nodes": window_nodes,
        }
