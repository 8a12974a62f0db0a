#!/bin/sh
# Runs a command for every fuzz target, because go test fuzzes only one at a time.
#
#	fuzz.sh DURATION	fuzz each for this long
#	fuzz.sh keep		commit what fuzzing found and reaches more code, see test/corpus
set -eu
[ $# = 1 ] || { echo "usage: $0 DURATION, such as 30s, or $0 keep" >&2; exit 2; }
cd "$(dirname "$0")/../.."

# To make inputs small takes a minute for each that is new, unless it is limited.
one() {
	if [ "$3" = keep ]; then
		go run ./test/corpus "$1" "$2"
	else
		echo "=== $1 $2"
		go test -run '^$' -fuzz "^$2\$" -fuzztime "$3" -fuzzminimizetime 100x "$1" </dev/null
	fi
}

grep -rl --include='*_test.go' '^func Fuzz' agent cmd configs containers test | xargs -n 1 dirname | sort -u |
	while read -r dir; do
		sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$dir"/*_test.go |
			while read -r target; do
				one "./$dir" "$target" "$1"
			done
	done
