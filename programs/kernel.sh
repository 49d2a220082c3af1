#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Fetches Debian's kernel package for the guest into the cache and prints two lines: the path of
# vmlinuz and the path of its modules folder. The suite's own kernel is taken, unmodified.
# Usage: kernel.sh [--suite NAME] [--update] [--headers] [cloud|stock|rt]   (default: $GUEST, else
# cloud) --suite: another one of Debian's than this machine's: bookworm, trixie, trixie-backports.
# Its lists are in the cache; the machine's own are not touched. --headers: prints the folder of the
# same kernel's headers instead, for building modules.
set -euo pipefail

fail() {
    echo "kernel.sh: $*" >&2
    exit 1
}

update=0
want_headers=0
wanted_suite=
while [[ ${1:-} == --* ]]; do
    case $1 in
        --update) update=1 ;;
        --headers) want_headers=1 ;;
        --suite)
            wanted_suite=${2:-}
            case $wanted_suite in
                bookworm | trixie | trixie-backports) ;;
                *)
                    fail "unknown suite '$wanted_suite'," \
                        "wanted bookworm, trixie or trixie-backports"
                    ;;
            esac
            shift
            ;;
        *) fail "unknown option '$1', wanted --suite, --update or --headers" ;;
    esac
    shift
done
flavour=${1:-${GUEST:-cloud}}
case $flavour in
    cloud) meta=linux-image-cloud-amd64 ;;
    stock) meta=linux-image-amd64 ;;
    rt) meta=linux-image-rt-amd64 ;;
    *) fail "unknown flavour '$flavour', wanted cloud, stock or rt" ;;
esac

# shellcheck source=programs/suite.sh
. "$(dirname "$0")/suite.sh"
own=${wanted_suite:-$suite}
cache=${PMUVISOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pmuvisor}/kernel/$own
current=$cache/$flavour

print_paths() {
    local kernel modules
    kernel=$(echo "$current"/boot/vmlinuz-[0-9]*)
    # Debian 13 has /lib inside /usr; the package may use either.
    for modules in "$current"/usr/lib/modules/* "$current"/lib/modules/*; do
        if [ -d "$modules/kernel" ] && [ -s "$kernel" ]; then
            printf '%s\n%s\n' "$kernel" "$modules"
            return 0
        fi
    done
    return 1
}

# The headers' own dependencies name the two packages that they are split into.
fetch_headers() {
    local release=$1 package=linux-headers-$1
    local -a parts
    mapfile -t parts < <(apt-cache "${apt[@]}" depends "$package" 2> /dev/null |
        sed -n 's/^ *Depends: \(linux-\(headers\|kbuild\)-[^ ]*\)$/\1/p')
    [ ${#parts[@]} -ge 2 ] ||
        fail "apt-cache knows no $package; as root run: apt-get update;" \
            "or: programs/kernel.sh --update"
    fetch_packages "$work" "$work/headers" "$package" "${parts[@]}"
    # They name each other by where they would be installed.
    sed -i "s|/usr/src/|$current/headers/usr/src/|g; s|/usr/lib/|$current/headers/usr/lib/|g" \
        "$work/headers/usr/src/$package/Makefile"
    rm -rf "$current/headers"
    mv "$work/headers" "$current/headers"
}

print_headers() {
    local -a paths
    local release
    mapfile -t paths < <(print_paths)
    release=$(basename "${paths[1]}")
    [ -e "$current/headers/usr/src/linux-headers-$release/Makefile" ] || fetch_headers "$release"
    echo "$current/headers/usr/src/linux-headers-$release"
}

mkdir -p "$cache"
work=$(mktemp -d "$cache/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
# The meta package depends on exactly one image package, whose name carries the release. From 7.x on
# that is empty, and depends on what holds vmlinuz and modules.
resolve() {
    apt-cache "${apt[@]}" depends "$meta" 2> /dev/null |
        sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | sed -n 1p
}
parts_of() {
    apt-cache "${apt[@]}" depends "$1" 2> /dev/null |
        sed -n 's/^ *Depends: \(linux-\(binary\|modules\)-[0-9][^ ]*\)$/\1/p'
}
fetch_image() {
    # shellcheck disable=SC2046 # one word for each package
    fetch_packages "$work" "$work/image" "$1" $(parts_of "$1")
}

use_suite "$own" "$cache/apt"
if [ $update -eq 0 ] && found=$(print_paths); then
    if [ $want_headers -eq 1 ]; then
        print_headers
    else
        echo "$found"
    fi
    exit 0
fi

# Refreshed where the lists know no such package, or name a version that is gone by now.
package=$(resolve) || true
if [ -z "$package" ] || ! (fetch_image "$package"); then
    refresh_lists || true
    rm -rf "${work:?}"/*
    package=$(resolve) || true
    [ -n "$package" ] ||
        fail "apt-cache knows no $meta; as root run: apt-get update (Debian 12 or 13 is needed)"
    fetch_image "$package"
fi
for kernel in "$work"/image/usr/lib/modules/*/vmlinuz; do # from 7.x on
    [ -s "$kernel" ] || continue
    mkdir -p "$work/image/boot"
    ln "$kernel" "$work/image/boot/vmlinuz-$(basename "$(dirname "$kernel")")"
done
rm -rf "$current"
mv "$work/image" "$current"
print_paths > /dev/null || fail "$package holds no vmlinuz or no modules; found: $(ls "$current")"
if [ $want_headers -eq 1 ]; then
    print_headers
else
    print_paths
fi
