#!/bin/sh
# Checks every shell script in the tree with shellcheck.
set -eu
cd "$(dirname "$0")/../.."

# A script is a file whose first line names a shell, or one called .sh, which scripts
# source.
list=$(find . \( -path ./.git -o -path ./bin -o -path ./build \) -prune -o -type f -size -256k \
	-exec awk 'FNR == 1 && (/^#! ?[a-z\/]*(\/| )(ba|da|busybox )?sh( |$)/ || FILENAME ~ /\.sh$/) { print FILENAME } { nextfile }' {} +)
bad=0
for script in $list; do
	# SC1091: files that a script sources are checked separately.
	# SC1008: shellcheck does not know busybox's shell by name.
	case $(head -n 1 "$script") in
	*busybox*) shellcheck --external-sources --exclude=SC1091,SC1008 --shell=dash "$script" ;;
	*) shellcheck --external-sources --exclude=SC1091 "$script" ;;
	esac || bad=1
done
exit $bad
