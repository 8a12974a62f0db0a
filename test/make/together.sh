#!/bin/bash
# Runs make targets at the same time, each as a phase. The output of the first one is
# shown as it comes, that of the others when they have ended.
#
#	together.sh TARGET...
set -uo pipefail
here=$(dirname "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; exit 1' INT TERM HUP

run() {
	"$here/phase.sh" "$1" "${MAKE:-make}" --no-print-directory "$1"
}

first=$1
shift
run "$first" &
jobs=($!)
for target; do
	run "$target" >"$dir/$target" 2>&1 &
	jobs+=($!)
done

wait "${jobs[0]}"
status=$?
for i in "${!jobs[@]}"; do
	((i > 0)) || continue
	wait "${jobs[$i]}" || status=$?
	cat "$dir/${!i}"
done
exit "$status"
