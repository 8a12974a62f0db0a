#!/bin/bash
# Runs go test and lists the failed tests at the end, because a failed test also prints
# the long logs of its daemons.
#
#	gotest.sh [ARGUMENT of go test...]
set -uo pipefail
output=$(mktemp)
trap 'rm -f "$output"' EXIT
go test "$@" 2>&1 | tee "$output"
status=${PIPESTATUS[0]}
[ "$status" = 0 ] && exit
echo
echo "=== failures"
# Assertions and test names; daemon.go prints the logs.
grep -E '^ *(--- FAIL|[a-z_]+\.go:[0-9]+: |panic: |WARNING: DATA RACE|FAIL	)|\[build failed\]' "$output" |
	grep -v ' daemon\.go:[0-9]*: ' | cut -c1-400 | tail -n 60
exit "$status"
