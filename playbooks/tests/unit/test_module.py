"""Tests of the module, with a program that answers like kollet."""

import importlib
import json
import stat

import pytest

PLAN = {
    "from": 3,
    "reason": "upgrade",
    "changes": [
        {
            "service": "web",
            "action": "replace",
            "image": {"from": "r/web:1", "to": "r/web:2", "pull": True},
            "spec": ["privileged: false, now true"],
            "files": [{"path": "/etc/web.conf", "diff": "--- a\n+++ b\n@@ -1 +1 @@\n-one\n+two\n"}],
        }
    ],
    "drift": [{"service": "db", "what": "container", "text": "container db is gone"}],
}
EMPTY = {"from": 3, "reason": "upgrade", "changes": [], "drift": []}
STATUS = {"generation": 3, "healthy": True, "interrupted": False, "services": []}
HISTORY = [
    {"generation": 4, "from": 3, "reason": "rollback to 2", "current": True, "kept": True},
    {"generation": 3, "from": 2, "reason": "upgrade", "current": False, "kept": True},
    {"generation": 2, "from": 1, "reason": "upgrade", "current": False, "kept": True},
    {"generation": 1, "from": 0, "reason": "bootstrap", "current": False, "kept": False},
]


def upgraded(outcome, to, plan=PLAN):
    return {"outcome": outcome, "from": 3, "to": to, "plan": plan, "guests": 0, "seconds": 1.5}


def failed(status, error, result=None):
    return {"error": error, "exit": status, "result": result}


class Ended(Exception):
    pass


@pytest.fixture
def kollet(tmp_path, monkeypatch):
    """Run the module. Each command has a list of answers, one per run; the last one repeats."""
    program = tmp_path / "kollet"
    log = tmp_path / "log"

    def run(answers, _check=False, _diff=True, **args):
        for command, given in answers.items():
            folder = tmp_path / command
            folder.mkdir()
            for n, (status, document) in enumerate(given, 1):
                text = document if isinstance(document, str) else json.dumps(document)
                (folder / ("%d.out" % n)).write_text(text)
                (folder / ("%d.status" % n)).write_text(str(status))
        program.write_text(
            "#!/bin/sh\ncd %s\n" % tmp_path
            + 'echo "$@" >>log\nfor c; do [ -d "$c" ] && command=$c; done\n'
            + 'for a; do case $a in *.node-*) cat "$a" >planned ;; esac; done\n'
            + "n=$(($(cat $command/n 2>/dev/null || echo 0) + 1))\n"
            + "[ -e $command/$n.out ] || n=$((n - 1))\necho $n >$command/n\n"
            + 'cat $command/$n.out\necho "says $command" >&2\nexit "$(cat $command/$n.status)"\n'
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        given = {"executable": str(program), "node_file": str(tmp_path / "node.yaml")}
        given.update(args, _ansible_check_mode=_check, _ansible_diff=_diff)
        basic = importlib.import_module("ansible.module_utils.basic")
        module = importlib.import_module("ansible_collections.kollet.kollet.plugins.modules.kollet")
        monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": given}).encode())
        ends = {}

        def end(how):
            def note(self, **result):
                ends.update(result, failed=how)
                raise Ended()

            return note

        monkeypatch.setattr(basic.AnsibleModule, "exit_json", end(False))
        monkeypatch.setattr(basic.AnsibleModule, "fail_json", end(True))
        with pytest.raises(Ended):
            module.main()
        ends["runs"] = log.read_text().splitlines() if log.exists() else []
        ends["planned"] = (tmp_path / "planned").read_text() if (tmp_path / "planned").exists() else None
        return ends

    return run


def test_upgrade(kollet):
    out = kollet(
        {"upgrade": [(0, upgraded("committed", 4))]},
        action="upgrade",
        tag="2",
        images={"b": "r/b:1", "a": "r/a:1"},
        pull="missing",
    )
    assert not out["failed"] and out["changed"]
    assert (out["generation"], out["outcome"], out["rc"], out["node_state"]) == (4, "committed", 0, "done")
    assert not out["deferred"]
    assert out["runs"][0].endswith("upgrade --tag 2 --image a=r/a:1 --image b=r/b:1 --pull missing")
    assert out["stderr"] == "says upgrade\n" and out["result"]["to"] == 4


def test_drops_hotfixes(kollet):
    dropped = [{"value": "2", "node_file": "1", "state": "dropped"}]
    out = kollet(
        {"plan": [(3, dict(EMPTY, hotfixes=dropped))]},
        action="plan",
        drop_tag=True,
        drop_images=["a", "b"],
    )
    assert out["changed"]
    assert out["runs"][0].endswith("plan --exit-code --drop-tag --drop-image a --drop-image b")


def test_kept_hotfix_is_no_change(kollet):
    kept = [{"value": "2", "node_file": "1", "state": "kept"}]
    assert not kollet({"plan": [(0, dict(EMPTY, hotfixes=kept))]}, action="plan")["changed"]


def test_diff(kollet):
    text = kollet({"upgrade": [(0, upgraded("committed", 4))]}, action="upgrade")["diff"]["prepared"]
    for line in (
        "web: replace",
        "-   image r/web:1",
        "+   image r/web:2 (to be pulled)",
        "    setting privileged: false, now true",
        "    file /etc/web.conf",
        "-one",
        "+two",
        "db: container db is gone",
    ):
        assert line in text.splitlines()


def test_no_diff_unless_asked(kollet):
    assert "diff" not in kollet({"upgrade": [(0, upgraded("committed", 4))]}, _diff=False, action="upgrade")


@pytest.mark.parametrize("action", ["upgrade", "bootstrap", "rollback"])
def test_nothing_to_do(kollet, action):
    out = kollet({action: [(0, upgraded("nothing to do", 3, EMPTY))]}, action=action)
    assert not out["failed"] and not out["changed"] and "diff" not in out


@pytest.mark.parametrize(
    "status, outcome, changed, state, words",
    [
        (1, "rolled back", True, "as before", "the node is as it was before"),
        (1, "discarded", False, "as before", "the node is as it was before"),
        (4, "stuck", True, "needs an operator", "run kollet recover"),
        (5, None, False, "locked by another kollet process", "lock_wait"),
    ],
)
def test_failure_tells_reason_and_state(kollet, status, outcome, changed, state, words):
    result = upgraded(outcome, 3) if outcome else None
    out = kollet(
        {"upgrade": [(status, failed(status, "web: it sulks", result))], "status": [(0, STATUS)]},
        action="upgrade",
    )
    assert out["failed"] and out["rc"] == status and out["changed"] == changed
    assert out["msg"].startswith("web: it sulks; ") and words in out["msg"]
    assert (out["node_state"], out["generation"], out["healthy"], out["outcome"]) == (state, 3, True, outcome)


def test_deferred_is_no_failure(kollet):
    answer = failed(
        6, "nothing was touched: deferred: 1 operation: server a is spawning", upgraded("deferred", 3)
    )
    out = kollet({"upgrade": [(6, answer)]}, action="upgrade")
    assert not out["failed"] and not out["changed"] and out["deferred"]
    assert (out["generation"], out["outcome"], out["rc"], out["node_state"]) == (
        3,
        "deferred",
        0,
        "as before",
    )
    assert out["why"].endswith("server a is spawning") and len(out["runs"]) == 1


def test_deferred_without_result_is_a_failure(kollet):
    out = kollet({"upgrade": [(6, "")], "status": [(0, STATUS)]}, action="upgrade")
    assert out["failed"] and out["rc"] == 6 and "printed no result" in out["msg"]


def test_bad_input_touches_nothing(kollet):
    out = kollet({"upgrade": [(2, failed(2, "node.yaml:3:1: unknown key"))]}, action="upgrade")
    assert out["failed"] and out["node_state"] == "untouched" and not out["changed"]
    assert len(out["runs"]) == 1


def test_killed(kollet):
    status = dict(STATUS, interrupted=True)
    out = kollet({"upgrade": [(137, "")], "status": [(0, status)]}, action="upgrade")
    assert out["failed"] and "137" in out["msg"] and out["node_state"].startswith("interrupted")


def test_waits_for_the_lock(kollet, monkeypatch):
    run = importlib.import_module("ansible_collections.kollet.kollet.plugins.module_utils.run")
    slept = []
    monkeypatch.setattr(run.Kollet.__init__, "__defaults__", (slept.append, run.time.time))
    busy = (5, failed(5, "another kollet process holds the lock"))
    out = kollet({"upgrade": [busy, busy, (0, upgraded("committed", 4))]}, action="upgrade", lock_wait=30)
    assert not out["failed"] and len(out["runs"]) == 3 and slept == [2, 2]


@pytest.mark.parametrize("action", ["upgrade", "bootstrap", "plan"])
def test_check_mode_plans(kollet, action):
    out = kollet({"plan": [(3, PLAN)]}, _check=True, action=action, tag="2", node="profile: none\n")
    assert out["changed"] and "+two" in out["diff"]["prepared"] and out["rc"] == 0
    assert [r.split("plan ")[1] for r in out["runs"]] == ["--exit-code --tag 2"]
    assert out["planned"] == "profile: none\n"


def test_planned_node_file_goes(kollet, tmp_path):
    out = kollet({"plan": [(2, failed(2, "wrong"))]}, _check=True, action="upgrade", node="wrong\n")
    assert out["failed"] and out["planned"] == "wrong\n"
    assert not list(tmp_path.glob(".node-*"))


def test_planned_node_file_is_for_plans_only(kollet):
    out = kollet({"upgrade": [(0, upgraded("committed", 4))]}, action="upgrade", node="profile: none\n")
    assert out["changed"] and out["planned"] is None


def test_plan_without_changes(kollet):
    assert not kollet({"plan": [(0, EMPTY)]}, action="plan")["changed"]


@pytest.mark.parametrize("new", [True, False])
def test_pull(kollet, new):
    out = kollet(
        {"pull": [(0, {"images": [{"ref": "a", "new": False}, {"ref": "b", "new": new}]})]}, action="pull"
    )
    assert out["changed"] == new


def test_check_pull(kollet):
    assert kollet({"plan": [(0, PLAN)]}, _check=True, action="pull")["changed"]


def test_check_pull_of_what_is_there(kollet):
    plan = dict(PLAN, changes=[{"service": "web", "action": "remove"}])
    assert not kollet({"plan": [(0, plan)]}, _check=True, action="pull")["changed"]


@pytest.mark.parametrize(
    "generation, changed, fails",
    [
        (2, False, None),
        (3, True, None),
        (4, False, None),
        (None, True, None),
        (1, None, "no longer on this node"),
    ],
)
def test_check_rollback(kollet, generation, changed, fails):
    out = kollet(
        {"history": [(0, HISTORY)], "status": [(0, STATUS)]},
        _check=True,
        action="rollback",
        generation=generation,
    )
    if fails:
        assert out["failed"] and fails in out["msg"]
    else:
        assert not out["failed"] and out["changed"] == changed


@pytest.mark.parametrize("damaged, status, fails", [(4, 1, True), (2, 0, True), (3, 0, False)])
def test_check_rollback_of_damaged(kollet, damaged, status, fails):
    history = [dict(e, problem="damaged record") if e["generation"] == damaged else e for e in HISTORY]
    out = kollet({"history": [(status, history)]}, _check=True, action="rollback", generation=2)
    assert out["failed"] == fails
    if fails:
        assert "damaged record" in out["msg"] and out["rc"] == 4 and out["node_state"] == "needs an operator"


def test_rollback_to(kollet):
    out = kollet({"rollback": [(0, upgraded("committed", 5))]}, action="rollback", generation=2)
    assert out["runs"][0].endswith("rollback 2") and out["changed"]


def test_rollback_to_generation_0(kollet):
    out = kollet({"rollback": [(0, upgraded("committed", 5))]}, action="rollback", generation=0)
    assert out["runs"][0].endswith("rollback 0") and out["changed"]


def running(*generations):
    return dict(STATUS, services=[{"name": "s%d" % n, "generation": n} for n in generations])


@pytest.mark.parametrize("generations", [(), (0, 0)])
def test_adopt(kollet, generations):
    answers = {"status": [(0, running(*generations))], "adopt": [(0, upgraded("committed", 1))]}
    out = kollet(answers, action="adopt", include=["cron"], exclude=["nova_ssh"], force=True)
    assert out["changed"] and out["generation"] == 1
    assert out["runs"][1].endswith("adopt --include cron --exclude nova_ssh --force")


@pytest.mark.parametrize("check", [False, True])
def test_adopt_once(kollet, check):
    out = kollet({"status": [(0, running(0, 3))]}, _check=check, action="adopt")
    assert not out["failed"] and not out["changed"] and len(out["runs"]) == 1
    assert check or out["outcome"] == "nothing to do"


def test_check_adopt(kollet):
    proposal = {"node_file": "profile: none\n", "blocked": []}
    out = kollet({"status": [(0, running())], "adopt": [(0, proposal)]}, _check=True, action="adopt")
    assert out["changed"] and out["diff"]["prepared"] == proposal["node_file"]
    assert out["runs"][1].endswith("adopt --plan")


def test_check_adopt_blocked(kollet):
    blocked = [{"container": "nova_libvirt", "text": "it does not run", "remedy": "start it"}, {"text": "b"}]
    answers = {"status": [(0, running())], "adopt": [(1, {"node_file": "", "blocked": blocked})]}
    out = kollet(answers, _check=True, action="adopt")
    assert out["failed"] and out["msg"] == "nova_libvirt: it does not run; start it; b"
    assert not out["changed"] and out["node_state"] == "as before"


@pytest.mark.parametrize("reason, generations, changed", [("adopt", (1,), True), ("adopt", (0,), False)])
def test_check_return(kollet, reason, generations, changed):
    answers = {"history": [(0, [{"reason": reason}])], "status": [(0, running(*generations))]}
    out = kollet(answers, _check=True, action="rollback", generation=0)
    assert not out["failed"] and out["changed"] == changed


def test_check_return_without_adoption(kollet):
    out = kollet(
        {"history": [(0, HISTORY)], "status": [(0, STATUS)]}, _check=True, action="rollback", generation=0
    )
    assert out["failed"] and "has not taken this node over" in out["msg"]


@pytest.mark.parametrize("action, sent", [("upgrade", True), ("rollback", True), ("bootstrap", False)])
def test_force(kollet, action, sent):
    out = kollet({action: [(0, upgraded("committed", 5))]}, action=action, force=True)
    assert out["runs"][0].endswith(action + (" --force" if sent else ""))


@pytest.mark.parametrize("found", [True, False])
def test_recover(kollet, found):
    answer = {"found": found, "current": 3, "outcome": "rolled back"}
    out = kollet({"recover": [(0, answer)]}, action="recover")
    assert out["changed"] == found and ("outcome" in out) == found


def test_check_recover(kollet):
    assert kollet({"status": [(0, dict(STATUS, interrupted=True))]}, _check=True, action="recover")["changed"]


def test_status(kollet):
    out = kollet(
        {"status": [(0, dict(STATUS, healthy=False))]}, action="status", root="/r", engine="e", host="h"
    )
    assert not out["failed"] and out["healthy"] is False and not out["changed"]
    assert "--root /r --node-file" in out["runs"][0] and "--engine e --host h status" in out["runs"][0]


def test_verify_finds_drift(kollet):
    drift = [{"service": "web", "what": "file", "text": "edited"}]
    out = kollet({"verify": [(1, {"generation": 3, "services": 1, "drift": drift})]}, action="verify")
    assert not out["failed"] and out["drift"] == drift and not out["changed"] and out["rc"] == 0


def test_verify_after_an_interruption(kollet):
    found = {"generation": 3, "services": 0, "drift": [], "interrupted": True}
    out = kollet({"verify": [(1, found)], "status": [(0, dict(STATUS, interrupted=True))]}, action="verify")
    assert out["failed"] and out["msg"].startswith("an upgrade was interrupted") and out["drift"] == []
    assert out["node_state"].startswith("interrupted")


def test_verify_with_a_damaged_journal(kollet):
    found = {"generation": 3, "services": 1, "drift": [], "problem": "000004.jsonl:1: damaged record"}
    out = kollet({"verify": [(1, found)], "status": [(0, dict(STATUS))]}, action="verify")
    assert out["failed"] and out["msg"].startswith("000004.jsonl:1: damaged record")


def test_plan_after_an_interruption(kollet):
    out = kollet({"plan": [(0, dict(EMPTY, interrupted=True))]}, action="plan")
    assert out["changed"] and out["interrupted"]


def test_verify_fails(kollet):
    out = kollet(
        {"verify": [(1, failed(1, "the engine is away"))], "status": [(1, failed(1, "the engine is away"))]},
        action="verify",
    )
    assert out["failed"] and out["msg"].startswith("the engine is away") and "generation" not in out
