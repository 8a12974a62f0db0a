#!/bin/sh
# Written by kollet userdata. cloud-init runs it once, at the end of the first
# boot. It can be run again manually.
set -eu
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
HOME=${HOME:-/root}
export PATH HOME
umask 022
[ ! -d /etc/kollet/secrets ] || chmod 0700 /etc/kollet/secrets

# fetch URL SHA256 FILE retries for five minutes. It uses Python, which cloud-init
# needs too; curl may not be installed.
fetch() {
	python3 - "$@" <<'END'
import hashlib, os, shutil, sys, time, urllib.request

url, want, path = sys.argv[1:]
last = time.monotonic() + 300
while True:
    try:
        with urllib.request.urlopen(url, timeout=30) as source, open(path + ".new", "wb") as file:
            shutil.copyfileobj(source, file)
        break
    except OSError as error:
        print("fetch %s: %s" % (url, error), flush=True)
        if time.monotonic() > last:
            sys.exit("cannot fetch kollet; make the URL reachable from the node, and run this script again")
        time.sleep(5)
with open(path + ".new", "rb") as file:
    have = hashlib.sha256(file.read()).hexdigest()
if have != want:
    os.unlink(path + ".new")
    sys.exit("%s has SHA-256 %s, expected %s; nothing was installed" % (url, have, want))
os.rename(path + ".new", path)
END
}

