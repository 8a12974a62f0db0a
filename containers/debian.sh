# The Debian release and mirror of the container images and the node image. Both builds
# source this file.
# shellcheck shell=sh

suite=bookworm

# sources: prints the lines of sources.list for the mirror in DEBIAN_MIRROR, or else for the
# mirror that apt on this machine uses for Debian. Fails if there is neither.
sources() {
	if [ -n "${DEBIAN_MIRROR:-}" ]; then
		mirror=${DEBIAN_MIRROR%/}
		security=${DEBIAN_SECURITY_MIRROR:-$mirror-security}
		echo "deb $mirror $suite main"
		echo "deb $mirror $suite-updates main"
		echo "deb ${security%/} $suite-security main"
		return
	fi
	found=$(apt_sources)
	# Without package lists, apt does not know which of its sources is Debian.
	if [ -z "$found" ] && apt-get -qq update >&2; then
		found=$(apt_sources)
	fi
	case $found in
	*" $suite main"*) echo "$found" ;;
	*)
		echo "apt on this machine has no source for Debian $suite: set DEBIAN_MIRROR to the URL of a mirror" >&2
		return 1
		;;
	esac
}

# apt_sources: prints these lines for the mirror that apt is configured to use.
apt_sources() {
	# shellcheck disable=SC2016 # apt-get expands these
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' \
		'Created-By: Packages' 'Origin: Debian' 'Component: main' 2>/dev/null |
		awk -v suite="$suite" '
			$2 == suite || $2 == suite "-updates" || $2 == suite "-security" {
				print "deb " $1, $2, $3
			}' | sort -u
}

# check_sources FILE: fails if the lines contain a password, which would be in every image.
check_sources() {
	if grep -q '://[^ /]*@' "$1"; then
		echo "the mirror's URL contains a user name or password, which would be stored in the image; set DEBIAN_MIRROR to a URL without them" >&2
		return 1
	fi
}
