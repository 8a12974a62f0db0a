# Copyright the kollet authors
# SPDX-License-Identifier: Apache-2.0

"""Makes a directory contain certain files, each written atomically."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import os
import stat
import tempfile


class Tree(object):
    """A directory that root owns, and the files that it should contain."""

    def __init__(self, path, folder_mode, file_mode):
        self.path = path
        self.folder_mode = folder_mode
        self.file_mode = file_mode

    def changes(self, files, only):
        """Return (path, text before, text after) of each file that differs; None if a file is absent.

        With only, other files in the directory will be removed.
        """
        found = []
        for name in sorted(files):
            path = os.path.join(self.path, name)
            before = read(path)
            if before != files[name] or not owned(path, self.file_mode):
                found.append((path, before, files[name]))
        if only:
            found += [(path, read(path), None) for path in self.others(files)]
        return found

    def others(self, files):
        """Return the files in the directory that are not wanted."""
        wanted = set(os.path.join(self.path, name) for name in files)
        found = []
        for folder, folders, names in os.walk(self.path):
            links = [n for n in folders if os.path.islink(os.path.join(folder, n))]
            found += [os.path.join(folder, n) for n in names + links]
        return sorted(set(found) - wanted)

    def apply(self, changes):
        """Write and remove files."""
        self.make(self.path)
        for path, dummy, after in changes:
            if after is None:
                os.unlink(path)
                self.prune(os.path.dirname(path))
            else:
                self.make(os.path.dirname(path))
                write(path, after, self.file_mode)

    def ready(self):
        """Whether the directory exists, with the right owner and mode."""
        return os.path.isdir(self.path) and owned(self.path, self.folder_mode)

    def make(self, folder):
        """Create a directory and its parents, up to the tree's own."""
        if folder != self.path and not os.path.isdir(folder):
            self.make(os.path.dirname(folder))
        if not os.path.isdir(folder):
            os.makedirs(folder)
        if not owned(folder, self.folder_mode):
            os.chown(folder, 0, 0)
            os.chmod(folder, self.folder_mode)

    def prune(self, folder):
        """Remove directories that became empty."""
        while folder.startswith(self.path + "/") and not os.listdir(folder):
            os.rmdir(folder)
            folder = os.path.dirname(folder)


def read(path):
    """Return a file's text; None if it does not exist."""
    try:
        with open(path, "rb") as stream:
            return stream.read().decode("utf-8", "replace")
    except (IOError, OSError):
        return None


def owned(path, mode):
    """Whether root owns the path, with this mode. A link's mode is 0777, symlink(7)."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return found.st_uid == found.st_gid == 0 and stat.S_IMODE(found.st_mode) == mode


def write(path, text, mode):
    """Write a file atomically, to stable storage."""
    handle, temporary = tempfile.mkstemp(prefix=".kollet-", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encode("utf-8"))
            os.fchown(stream.fileno(), 0, 0)
            os.fchmod(stream.fileno(), mode)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
