#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Fetches Debian's kernel package for the guest into the cache and prints two lines: the path of
# vmlinuz and the path of its modules folder. The suite's own kernel is taken, unmodified.
# Usage: kernel.sh [--update] [cloud|stock]   (default: $GUEST, else cloud)
set -euo pipefail

fail() {
    echo "kernel.sh: $*" >&2
    exit 1
}

update=0
if [ "${1:-}" = --update ]; then
    update=1
    shift
fi
flavour=${1:-${GUEST:-cloud}}
case $flavour in
    cloud) meta=linux-image-cloud-amd64 ;;
    stock) meta=linux-image-amd64 ;;
    *) fail "unknown flavour '$flavour', wanted cloud or stock" ;;
esac

suite=unknown
if [ -r /etc/os-release ]; then
    # shellcheck disable=SC1091
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-${ID:-unknown}}")
fi
cache=${PMUVISOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pmuvisor}/kernel/$suite
current=$cache/$flavour

print_paths() {
    local kernel modules
    kernel=$(echo "$current"/boot/vmlinuz-*)
    # Debian 13 has /lib inside /usr; the package may use either.
    for modules in "$current"/usr/lib/modules/* "$current"/lib/modules/*; do
        if [ -d "$modules/kernel" ] && [ -s "$kernel" ]; then
            printf '%s\n%s\n' "$kernel" "$modules"
            return 0
        fi
    done
    return 1
}

if [ $update -eq 0 ] && print_paths; then
    exit 0
fi

# The meta package depends on exactly one image package, whose name carries the release.
resolve() {
    apt-cache depends "$meta" 2> /dev/null |
        sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | sed -n 1p
}
package=$(resolve) || true
if [ -z "$package" ]; then
    if [ "$(id -u)" -eq 0 ]; then
        apt-get update >&2
        package=$(resolve) || true
    elif command -v sudo > /dev/null && sudo -n true 2> /dev/null; then
        sudo -n apt-get update >&2
        package=$(resolve) || true
    fi
fi
[ -n "$package" ] ||
    fail "apt-cache knows no $meta; as root run: apt-get update (a Debian 12 or 13 system is needed)"

mkdir -p "$cache"
work=$(mktemp -d "$cache/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "kernel.sh: fetching $package" >&2
(cd "$work" && apt-get -q download "$package" >&2) ||
    fail "cannot download $package; check the network, or as root run: apt-get update"
mkdir "$work/root"
dpkg-deb -x "$work"/*.deb "$work/root"
rm -rf "$current"
mv "$work/root" "$current"
print_paths || fail "$package holds no vmlinuz or no modules; found: $(ls "$current")"
