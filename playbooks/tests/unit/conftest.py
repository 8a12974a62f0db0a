"""Makes the collection importable as ansible_collections.kollet.kollet."""

import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture(scope="session", autouse=True)
def collection(tmp_path_factory):
    """Link the collection where Ansible would install it."""
    root = tmp_path_factory.mktemp("collections")
    namespace = root / "ansible_collections" / "kollet"
    namespace.mkdir(parents=True)
    (namespace / "kollet").symlink_to(os.path.dirname(os.path.dirname(HERE)))
    sys.path.insert(0, str(root))
    yield
    sys.path.remove(str(root))
