"""Tests of the tree lookup."""

import importlib

import pytest


class Loader:
    """Ansible's, without a vault."""

    def get_real_file(self, path):
        return path


@pytest.fixture
def tree():
    module = importlib.import_module("ansible_collections.kollet.kollet.plugins.lookup.tree")
    return lambda *terms: module.LookupModule(loader=Loader()).run(list(terms))


def test_files_by_path(tree, tmp_path):
    (tmp_path / "nova/cmp1").mkdir(parents=True)
    (tmp_path / "nova.conf").write_text("a\n")
    (tmp_path / "nova/cmp1/nova.conf").write_text("\u00e4\n", encoding="utf-8")
    assert tree(str(tmp_path), "") == [{"nova.conf": "a\n", "nova/cmp1/nova.conf": "\u00e4\n"}, {}]


def test_no_directory(tree, tmp_path):
    with pytest.raises(Exception, match="is not a directory"):
        tree(str(tmp_path / "absent"))


def test_no_text(tree, tmp_path):
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    with pytest.raises(Exception, match="is not UTF-8 text"):
        tree(str(tmp_path))
