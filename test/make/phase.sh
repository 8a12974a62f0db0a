#!/bin/sh
# Runs a command and reports how long it took.
#
#	phase.sh NAME COMMAND [ARGUMENT...]
set -u
name=$1
shift
printf '\n=== %s\n' "$name"
start=$(date +%s)
"$@"
status=$?
took=$(($(date +%s) - start))
if [ $status = 0 ]; then result=ok; else result="FAILED with exit status $status"; fi
printf '=== %s: %d min %02d s, %s\n' "$name" $((took / 60)) $((took % 60)) "$result"
exit $status
