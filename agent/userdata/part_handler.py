#part-handler
"""Stores parts of kollet's type as files for services of the node."""
import os

DIR = "/var/lib/kollet/parts"


def list_types():
    return ["application/x-kollet-file"]


def handle_part(data, ctype, filename, payload):
    if ctype in ("__begin__", "__end__"):
        return
    name = os.path.basename(filename)
    if name in ("", ".", ".."):
        raise ValueError("a part of type %s needs a file name, not %r" % (ctype, filename))
    if isinstance(payload, str):
        payload = payload.encode("utf-8", "surrogateescape")
    os.makedirs(DIR, mode=0o700, exist_ok=True)
    path = os.path.join(DIR, name)
    # After a crash the file is complete or missing.
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(payload)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)
