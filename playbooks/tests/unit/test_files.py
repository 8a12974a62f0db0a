"""The files that a node gets."""

import importlib
import json
import os
import stat

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the files are root's")


class Ended(Exception):
    pass


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Runs the module."""
    basic = importlib.import_module("ansible.module_utils.basic")
    module = importlib.import_module("ansible_collections.kollet.kollet.plugins.modules.node_files")

    def run(check=False, **args):
        given = {
            "path": str(tmp_path / "etc"),
            "node": "one: 1\n",
            "_ansible_check_mode": check,
            "_ansible_diff": True,
        }
        given.update(args)
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
        return ends

    return run


def tree(top):
    """Everything below a directory: mode, and text of files."""
    found = {}
    for path in sorted(top.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        found[str(path.relative_to(top))] = (oct(mode), path.read_text() if path.is_file() else None)
    return found


WANTED = {"secrets": {"rabbit": "s3cret"}, "config": {"nova.conf": "a\n", "nova/cmp1/nova.conf": "b\n"}}


def test_writes_all(files, tmp_path):
    out = files(**WANTED)
    assert not out["failed"] and out["changed"]
    assert tree(tmp_path / "etc") == {
        "config": ("0o755", None),
        "config/nova": ("0o755", None),
        "config/nova/cmp1": ("0o755", None),
        "config/nova/cmp1/nova.conf": ("0o644", "b\n"),
        "config/nova.conf": ("0o644", "a\n"),
        "node.yaml": ("0o600", "one: 1\n"),
        "secrets": ("0o700", None),
        "secrets/rabbit": ("0o400", "s3cret"),
    }
    assert out["files"][-1].endswith("/node.yaml")


def test_second_time_nothing_changes(files):
    files(**WANTED)
    out = files(**WANTED)
    assert not out["changed"] and out["files"] == [] and out["diff"] == []


def test_check_mode_writes_nothing(files, tmp_path):
    out = files(check=True, **WANTED)
    assert out["changed"] and len(out["files"]) == 4 and not (tmp_path / "etc").exists()


def test_diff_is_without_secrets(files):
    files(**WANTED)
    out = files(node="one: 2\n", secrets={"rabbit": "another", "new": "third"}, config={"nova.conf": "c\n"})
    text = json.dumps(out["diff"])
    for word in ("s3cret", "another", "third"):
        assert word not in text
    assert [(d["before"], d["after"]) for d in out["diff"]] == [
        ("", "(a secret)\n"),
        ("(a secret)\n", "(a secret)\n"),
        ("a\n", "c\n"),
        ("b\n", ""),
        ("one: 1\n", "one: 2\n"),
    ]


def test_others_go_with_their_directories(files, tmp_path):
    files(**WANTED)
    (tmp_path / "etc/config/link").symlink_to("/etc")
    out = files(secrets={}, config={"nova.conf": "a\n"})
    assert out["changed"]
    assert set(tree(tmp_path / "etc")) == {"config", "config/nova.conf", "node.yaml", "secrets"}
    assert os.path.isdir("/etc")


def test_what_is_not_given_is_left_alone(files, tmp_path):
    files(**WANTED)
    assert not files()["changed"]
    assert "secrets/rabbit" in tree(tmp_path / "etc")


@pytest.mark.parametrize("path, mode", [("node.yaml", 0o644), ("secrets/rabbit", 0o444), ("secrets", 0o755)])
def test_modes_are_mended(files, tmp_path, path, mode):
    files(**WANTED)
    before = tree(tmp_path / "etc")
    (tmp_path / "etc" / path).chmod(mode)
    assert files(**WANTED)["changed"]
    assert tree(tmp_path / "etc") == before


def test_a_link_is_replaced_and_not_followed(files, tmp_path):
    files(**WANTED)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("one: 1\n")
    (tmp_path / "etc/node.yaml").unlink()
    (tmp_path / "etc/node.yaml").symlink_to(elsewhere)
    assert files(node="two: 2\n")["changed"]
    assert elsewhere.read_text() == "one: 1\n" and not (tmp_path / "etc/node.yaml").is_symlink()


@pytest.mark.parametrize(
    "args",
    [
        {"secrets": {"../x": "y"}},
        {"config": {"a/../../x": "y"}},
        {"secrets": {"a/b": "y"}},
        {"config": {"/x": "y"}},
    ],
)
def test_names_stay_below(files, tmp_path, args):
    assert files(**args)["failed"] and not (tmp_path / "etc").exists()
