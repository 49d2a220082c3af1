# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Packages of this machine's or another one of Debian's suites; sourced. Gives `suite`, the
# machine's own, and `apt`, words for apt-get and apt-cache, none for the machine's own lists.
# Wants fail().

suite=unknown
if [ -r /etc/os-release ]; then
    # shellcheck disable=SC1091
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-${ID:-unknown}}")
fi
apt=()

# Where the machine's own packages come from.
mirror() {
    local found
    # shellcheck disable=SC2016 # apt's own field
    found=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' \
        2> /dev/null | sed -n '/\/debian\/*$/p' | sed -n 1p)
    found=${found:-http://deb.debian.org/debian}
    echo "${found%/}"
}

# From here on packages are this suite's ($1), by lists in a folder of the cache ($2). Nothing
# changes where it is the machine's own, but for sources ($3 is deb-src), whose lists few have.
use_suite() {
    local keys=/usr/share/keyrings/debian-archive-keyring.gpg folder=$2 types=${3:-deb} uri part
    local parts=('' -security)
    [ "$1$types" != "${suite}deb" ] || return 0
    [ -r $keys ] || fail "found no $keys, wanted Debian's keys; install debian-archive-keyring"
    mkdir -p "$folder/lists/partial" "$folder/archives/partial"
    uri=$(mirror)
    [[ $1 != *-backports ]] || parts=('')
    for part in "${parts[@]}"; do
        printf 'Types: %s\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n\n' \
            "$types" "$uri$part" "$1$part" $keys
    done > "$folder/debian.sources"
    apt=(-o "Dir::Etc::sourcelist=$folder/debian.sources" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$folder/lists" -o "Dir::Cache::archives=$folder/archives"
        -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache="
        # Else what is installed here is a version to choose, and often the newest.
        -o Dir::State::status=/dev/null)
}

refresh_lists() {
    if [ ${#apt[@]} -gt 0 ]; then
        apt-get "${apt[@]}" -q update >&2
    elif [ "$(id -u)" -eq 0 ]; then
        apt-get update >&2
    elif command -v sudo > /dev/null && sudo -n true 2> /dev/null; then
        sudo -n apt-get update >&2
    fi
}

download_packages() { # download_packages FOLDER PACKAGE...
    # As root, apt would warn that its own user cannot write into this folder.
    (cd "$1" && apt-get "${apt[@]}" -o APT::Sandbox::User=root -q download "${@:2}" >&2)
}

# Downloads packages, and unpacks them into a folder, which they replace.
fetch_packages() { # fetch_packages WORK FOLDER PACKAGE...
    local work=$1 folder=$2 archive
    shift 2
    echo "${0##*/}: fetching $*" >&2
    # Refresh the lists if they know no such package, or name a version that is gone by now.
    if ! download_packages "$work" "$@" 2> /dev/null; then
        refresh_lists || true
        download_packages "$work" "$@" ||
            fail "cannot download $*; check the network, or as root run: apt-get update"
    fi
    mkdir "$work/root"
    for archive in "$work"/*.deb; do
        dpkg-deb -x "$archive" "$work/root"
        rm "$archive"
    done
    rm -rf "$folder"
    mv "$work/root" "$folder"
}
