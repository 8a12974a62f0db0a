"""What the playbooks note and report."""

import importlib

import pytest


@pytest.fixture
def fleet():
    return importlib.import_module("ansible_collections.kollet.kollet.plugins.filter.fleet")


def test_secret_files(fleet):
    assert fleet.secret_files({"b": 1, "a": 2}, "/etc/s") == {
        "a": {"file": "/etc/s/a"},
        "b": {"file": "/etc/s/b"},
    }


def test_table(fleet):
    rows = [
        {"node": "cmp1", "result": "committed", "to": 2},
        {"node": "c", "result": "failed", "why": "it\nsulks"},
    ]
    assert fleet.table(rows, ["node", "result", "to", "why"]) == [
        "NODE  RESULT     TO  WHY",
        "cmp1  committed  2   -",
        "c     failed     -   it",
    ]


def test_totals(fleet):
    assert fleet.totals([{"r": "a"}, {"r": "b"}, {"r": "a"}], "r") == "2 a, 1 b"


def test_reports(fleet):
    hostvars = {
        "a": {"kollet_report": {"result": "committed"}},
        "b": {},
        "c": {},
        "d": {"kollet_report": {"result": "failed"}},
    }
    rows = fleet.reports(["a", "b", "c", "d"], hostvars, ["c", "d"])
    assert [(r["node"], r["result"]) for r in rows] == [
        ("a", "committed"),
        ("b", "untouched"),
        ("c", "failed"),
        ("d", "failed"),
    ]


def test_window(fleet):
    record = fleet.begin_wave({}, [{"node": "a", "from": 1}])
    record = fleet.end_wave(record, [{"node": "a", "result": "committed", "to": 2}])
    record = fleet.begin_wave(record, [{"node": "b", "from": 1}, {"node": "c", "from": 4}])
    record = fleet.end_wave(
        record,
        [{"node": "b", "result": "committed", "to": 2}, {"node": "c", "result": "rolled back", "to": 4}],
    )
    assert fleet.window_nodes(record, "all") == {"a": 1, "b": 1, "c": 4}
    assert fleet.window_nodes(record, "wave") == {"b": 1, "c": 4}
    # Run again: what was done stays noted, also that of a run which was killed.
    record = fleet.begin_wave(
        record, [{"node": "a", "from": 2}, {"node": "d", "from": 7}, {"node": "e", "from": 3}]
    )
    assert fleet.window_nodes(record, "wave") == {"d": 7, "e": 3}
    record = fleet.end_wave(
        record,
        [
            {"node": "a", "result": "nothing to do", "to": 2},
            {"node": "d", "result": "nothing to do", "to": 7},
            {"node": "e", "result": "deferred", "to": 3},
        ],
    )
    assert fleet.window_nodes(record, "all") == {"a": 1, "b": 1, "c": 4}
    assert record["nodes"]["a"] == {"from": 1, "wave": 1, "result": "committed"}


def test_empty_window(fleet):
    assert fleet.window_nodes({}, "wave") == {} and fleet.end_wave({}, []) == {"nodes": {}}


@pytest.mark.parametrize(
    "result, before, change, want",
    [
        (
            {"msg": "sulks"},
            {"generation": 3},
            {"rc": 1, "outcome": "rolled back", "generation": 3, "seconds": 2.0},
            "rolled back",
        ),
        (
            {"msg": "no image"},
            {"generation": 3},
            {"rc": 1, "outcome": "discarded", "generation": 3},
            "failed",
        ),
        ({"msg": "stuck"}, {"generation": 3}, {"rc": 4, "outcome": "stuck"}, "needs an operator"),
        ({"msg": "it became unreachable"}, {"generation": 3}, {"unreachable": True}, "unreachable"),
        ({}, {}, {}, "failed"),
    ],
)
def test_failure(fleet, result, before, change, want):
    row = fleet.failure(result, before, change)
    assert row["result"] == want and row["why"]


STATUS = {
    "generation": 3,
    "since": "2026-01-02T03:04:05.678Z",
    "healthy": True,
    "interrupted": False,
    "guests": 2,
    "engine": {"name": "docker", "version": "20"},
    "services": [
        {"name": "web", "health": "healthy", "state": "running"},
        {"name": "db", "health": "none", "state": "running"},
    ],
}


@pytest.mark.parametrize(
    "change, result, why",
    [
        ({}, "healthy", None),
        ({"interrupted": True}, "not healthy", "interrupted"),
        ({"generation": 0, "services": []}, "not healthy", "no generation yet"),
        (
            {
                "healthy": False,
                "services": [{"name": "web", "health": "unhealthy", "state": "running", "why": "sulks"}],
            },
            "not healthy",
            "web: sulks",
        ),
    ],
)
def test_status(fleet, change, result, why):
    row = fleet.standing_of({"result": dict(STATUS, **change)})
    assert row["result"] == result and (why is None or why in row["why"])
    if result == "healthy":
        assert (row["services"], row["since"], row["guests"]) == ("2 of 2", "2026-01-02 03:04:05", 2)
    else:
        assert fleet.standing_of({"result": dict(STATUS, **change)}, True)["result"] == "failed"


@pytest.mark.parametrize(
    "result, want",
    [
        ({"changed": True}, "did"),
        ({"changed": False}, "did not"),
        ({"unreachable": True}, "unreachable"),
        ({"failed": True, "msg": "no", "rc": 1}, "failed"),
        ({"failed": True, "msg": "no", "rc": 4}, "needs an operator"),
        ({"failed": True, "drift": [{"text": "edited"}]}, "differs"),
    ],
)
def test_noted(fleet, result, want):
    assert fleet.noted(result, "did", "did not")["result"] == want
