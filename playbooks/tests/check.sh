#!/bin/sh
# Checks the collection: unit tests, ansible-doc, ansible-lint with its production
# profile, and the sanity tests of ansible-test that need nothing from PyPI. The other
# sanity tests (ansible-doc, import, pep8, pylint, runtime-metadata, validate-modules,
# yamllint) create virtual environments; run them where PyPI can be reached:
# ansible-test sanity --docker.
set -eu
cd "$(dirname "$0")/.."
# Debian's Ansible needs Debian's Python, which may not be the first in PATH.
export PATH=/usr/bin:/bin:/usr/sbin:/sbin LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 ANSIBLE_DEPRECATION_WARNINGS=false

echo "playbooks: black"
black --quiet --check --line-length 110 plugins tests/unit || {
	echo "run: black --line-length 110 playbooks/plugins playbooks/tests/unit" >&2
	exit 1
}

echo "playbooks: unit tests"
/usr/bin/python3 -m pytest -q -p no:cacheprovider tests/unit

# Ansible identifies a collection by its directory.
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
trap 'exit 1' INT TERM HUP
tree=$root/ansible_collections/kollet/kollet
mkdir -p "$root/ansible_collections/kollet" "$root/home"
cp -R . "$tree"
rm -rf "$tree/heat"
export ANSIBLE_COLLECTIONS_PATH="$root" ANSIBLE_HOME="$root/home" HOME="$root/home"
cd "$tree"

echo "playbooks: ansible-doc"
/usr/bin/python3 /usr/bin/ansible-doc kollet.kollet.kollet >/dev/null
/usr/bin/python3 /usr/bin/ansible-doc -t role kollet.kollet.kollet >/dev/null

echo "playbooks: ansible-lint, production profile"
/usr/bin/python3 /usr/bin/ansible-lint -q --nocolor --offline --strict

echo "playbooks: ansible-test sanity"
for test in action-plugin-docs changelog compile empty-init future-import-boilerplate ignores line-endings \
	metaclass-boilerplate no-assert no-basestring no-dict-iteritems no-dict-iterkeys no-dict-itervalues \
	no-get-exception no-illegal-filenames no-main-display no-smart-quotes no-unicode-literals \
	replace-urlopen shebang symlinks use-argspec-type-path use-compat-six; do
	set -- "$@" --test "$test"
done
/usr/bin/python3 /usr/bin/ansible-test sanity --python 3.11 --color no "$@" >"$root/sanity" 2>&1 || {
	cat "$root/sanity"
	exit 1
}
