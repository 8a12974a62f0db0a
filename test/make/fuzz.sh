#!/bin/sh
# Runs every fuzz target for a given time, because go test runs only one at a time.
#
#	fuzz.sh DURATION
set -eu
[ $# = 1 ] || { echo "usage: $0 DURATION, such as 30s" >&2; exit 2; }
cd "$(dirname "$0")/../.."

grep -rl --include='*_test.go' '^func Fuzz' agent cmd configs containers test | xargs -n 1 dirname | sort -u |
	while read -r dir; do
		sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$dir"/*_test.go |
			while read -r target; do
				echo "=== $dir $target"
				go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "./$dir" </dev/null
			done
	done
