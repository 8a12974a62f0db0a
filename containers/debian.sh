# Which Debian the images and the node image are made of, and where this machine
# gets it from. Both builds source this.
# shellcheck shell=sh

suite=bookworm

# sources: prints where this machine gets Debian from, as lines for sources.list.
sources() {
	# shellcheck disable=SC2016 # apt-get's own words
	found=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' \
		'Created-By: Packages' 'Origin: Debian' 'Component: main' 2>/dev/null |
		awk -v suite="$suite" '
			$2 == suite || $2 == suite "-updates" || $2 == suite "-security" {
				print "deb " $1, $2, $3
			}' | sort -u) || found=
	case $found in
	*" $suite main"*) echo "$found" ;;
	*) debian_sources ;;
	esac
}

# debian_sources: prints where everybody gets it from.
debian_sources() {
	echo "deb http://deb.debian.org/debian $suite main"
	echo "deb http://deb.debian.org/debian $suite-updates main"
	echo "deb http://deb.debian.org/debian-security $suite-security main"
}
