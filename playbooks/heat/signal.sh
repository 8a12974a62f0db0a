#!/bin/sh
# Reports the result of the first boot to Heat, and exits with 1 if it failed. The
# template replaces the variable CURL with Heat's own curl command, which contains the
# token. This script may be run again.
set -eu
finished=/var/lib/kollet/provision-finished

signal=$(python3 - "$finished" <<'END'
import json, sys

status, reason, data = "FAILURE", "kollet bootstrap left no result; see /var/log/cloud-init-output.log on the node", ""
try:
    with open(sys.argv[1]) as file:
        result = json.load(file)
    data = "generation %d, kollet %s" % (result["generation"], result["kollet"])
    status, reason = "SUCCESS", result["outcome"]
    if not result["ok"]:
        status, reason = "FAILURE", result["error"]
except (OSError, ValueError, KeyError) as error:
    print("signal: %s" % error, file=sys.stderr)
# One message per node: a second one with the same id replaces the first.
print(json.dumps({"status": status, "reason": reason[:1000], "data": data, "id": "kollet"}))
END
)
echo "signal: $signal"
tries=0
until $CURL --fail --silent --show-error --max-time 60 --data-binary "$signal"; do
	tries=$((tries + 1))
	[ $tries -lt 30 ] || { echo "signal: Heat cannot be reached" >&2; exit 1; }
	sleep 10
done
case $signal in *'"SUCCESS"'*) ;; *) exit 1 ;; esac
