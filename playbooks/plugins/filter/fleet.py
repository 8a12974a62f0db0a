# Copyright the kollet authors
# SPDX-License-Identifier: Apache-2.0

"""Filters of the role and the playbooks. They run on the control machine."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import os


def secret_files(secrets, folder):
    """The node file's entries for secrets that lie in a folder of the node."""
    return dict((name, {"file": os.path.join(folder, name)}) for name in sorted(secrets))


def table(rows, columns):
    """Rows, as dictionaries, as the lines of an aligned table."""
    cells = [[column.upper() for column in columns]]
    cells += [[text(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return ["  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in cells]


def text(value):
    """A cell: one line."""
    if value is None or value == "":
        return "-"
    return str(value).splitlines()[0] if str(value).strip() else "-"


def totals(rows, column):
    """How many rows have which value, as words, in the order in which they first come."""
    counts = {}
    order = []
    for row in rows:
        value = text(row.get(column))
        if value not in counts:
            order.append(value)
        counts[value] = counts.get(value, 0) + 1
    return ", ".join("%d %s" % (counts[value], value) for value in order)


def reports(hosts, hostvars, lost=()):
    """What is known of each host of a play, as rows; lost ones went away in the middle."""
    rows = []
    for host in hosts:
        row = {"result": "untouched"}
        if "kollet_report" in hostvars[host]:
            row = dict(hostvars[host]["kollet_report"])
        elif host in lost:
            row = {"result": "failed", "why": "it failed or went away, as told above"}
        row["node"] = host
        rows.append(row)
    return rows


def reachable(hosts, hostvars):
    """Those hosts that could be reached when the play began."""
    return [host for host in hosts if not hostvars[host].get("kollet_before", {}).get("unreachable")]


def standing(hosts, hostvars):
    """Which generation each host runs before anything is done, as rows."""
    return [
        {"node": host, "from": hostvars[host].get("kollet_before", {}).get("generation", 0)} for host in hosts
    ]


def failure(result, before, change):
    """What to report of a node that failed: result is that of the task that did."""
    row = {
        "result": "failed",
        "why": result.get("msg") or "it is not healthy",
        "from": before.get("generation", 0),
        "to": change.get("generation", before.get("generation", 0)),
        "seconds": change.get("seconds"),
    }
    if before.get("unreachable") or change.get("unreachable") or "went away" in row["why"]:
        row.update(result="unreachable", to=None)
    elif change.get("rc") == 4:
        row["result"] = "needs an operator"
    elif change.get("outcome") == "rolled back":
        row["result"] = "rolled back"
    return row


def noted(result, changed="", unchanged=""):
    """What to report of a node after a task that does not make a generation."""
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
    """A node's line in the table of the fleet."""
    if result.get("unreachable"):
        return noted(result)
    status = result["result"]
    services = status.get("services") or []
    unwell = [s for s in services if s["health"] not in ("healthy", "none")]
    row = {
        "result": "healthy",
        "generation": status["generation"],
        "since": status["since"][:19].replace("T", " "),
        "services": "%d of %d" % (len(services) - len(unwell), len(services)),
        "guests": status["guests"],
        "engine": "%s %s" % (status["engine"]["name"], status["engine"]["version"]),
    }
    if status["interrupted"]:
        row.update(result="not healthy", why="an upgrade was interrupted; run kollet.kollet.recover")
    elif status["generation"] == 0:
        row.update(result="not healthy", since=None, why="nothing runs yet; run kollet.kollet.bootstrap")
    elif not status["healthy"]:
        row.update(
            result="not healthy",
            why="; ".join("%s: %s" % (s["name"], s.get("why") or s["state"]) for s in unwell),
        )
    if require_healthy and row["result"] != "healthy":
        row["result"] = "failed"
    return row


def begin_wave(record, rows):
    """A window's record once a wave begins: what each of its nodes runs before.

    A node that is in it already was touched by an earlier run of the same window:
    where it came from stays as it is.
    """
    nodes = dict(record.get("nodes") or {})
    wave = max([entry["wave"] for entry in nodes.values()] + [0]) + 1
    for row in rows:
        if row["node"] not in nodes:
            nodes[row["node"]] = {"from": row["from"], "wave": wave}
    return {"nodes": nodes}


def end_wave(record, rows):
    """A window's record once a wave has ended: without the nodes that it found done.

    One that runs another generation than before was changed by an earlier run,
    which did not live to see it.
    """
    nodes = dict((name, dict(entry)) for name, entry in (record.get("nodes") or {}).items())
    for row in rows:
        entry = nodes.get(row["node"])
        if entry is None:
            continue
        if row["result"] != "nothing to do":
            entry["result"] = row["result"]
        elif row.get("to") == entry["from"]:
            del nodes[row["node"]]
    return {"nodes": nodes}


def window_nodes(record, scope):
    """Where each node goes back to: those of the last wave, or all of the window."""
    nodes = record.get("nodes") or {}
    last = max([entry["wave"] for entry in nodes.values()] + [0])
    return dict(
        (name, entry["from"]) for name, entry in nodes.items() if scope == "all" or entry["wave"] == last
    )


class FilterModule(object):
    """What Ansible asks for."""

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
