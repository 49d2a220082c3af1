#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the guest's kernel module against Debian's own headers for the kernel that guest/kernel.sh
# fetched (their packages are taken into the cache, nothing is installed) and prints the path of
# pmuvisor_nmi.ko. Usage: build.sh [cloud|stock]   (default: $GUEST, else cloud)
set -euo pipefail

fail() {
    echo "module/build.sh: $*" >&2
    exit 1
}

flavour=${1:-${GUEST:-cloud}}
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
mapfile -t kernel < <("$top/guest/kernel.sh" "$flavour")
[ ${#kernel[@]} -eq 2 ] || fail "no kernel for flavour '$flavour' (see above)"
release=$(basename "${kernel[1]}")
cache=${PMUVISOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pmuvisor}/headers
root=$cache/$release
headers=$root/usr/src/linux-headers-$release

# The headers of one kernel are three packages: its own, those of all flavours, the build tools.
packages() {
    echo "linux-headers-$release"
    apt-cache depends "linux-headers-$release" 2> /dev/null |
        sed -n 's/^ *Depends: \(linux-headers-[^ ]*-common\|linux-kbuild-[^ ]*\)$/\1/p'
}

fetch_headers() {
    local names work package file
    mapfile -t names < <(packages)
    [ ${#names[@]} -eq 3 ] || fail "apt-cache knows no linux-headers-$release with its common and" \
        "kbuild packages (found: ${names[*]:1}); as root run: apt-get update && $top/guest/kernel.sh --update $flavour"
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/.fetch.XXXXXX")
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    echo "module/build.sh: fetching ${names[*]}" >&2
    (cd "$work" && apt-get -q download "${names[@]}" >&2) ||
        fail "cannot download ${names[*]}; check the network, or as root run: apt-get update"
    mkdir "$work/root"
    for package in "$work"/*.deb; do
        dpkg-deb -x "$package" "$work/root"
    done
    # The packages name each other by the absolute path that they have when installed.
    while IFS= read -r file; do
        sed -i -E "s,([ =])(/usr/(src|lib)/linux-),\1$root\2,g" "$file"
    done < <(grep -lE '[ =]/usr/(src|lib)/linux-' "$work/root/usr/src/linux-headers-$release"/{Makefile,.kernelvariables} 2> /dev/null)
    rm -rf "$root"
    mv "$work/root" "$root"
}

if [ ! -e "$headers/Module.symvers" ]; then
    fetch_headers
fi
[ -e "$headers/Module.symvers" ] || fail "linux-headers-$release holds no $headers/Module.symvers"

out=$top/build/module/$release
module=$out/pmuvisor_nmi.ko
sources=("$here/pmuvisor_nmi.c" "$here/Makefile" "$here/build.sh" "$top/include/hypercall.h"
    "$headers/Module.symvers")
fresh=1
for source in "${sources[@]}"; do
    [ -e "$module" ] && [ ! "$source" -nt "$module" ] || fresh=0
done
if [ $fresh -eq 0 ]; then
    # Kbuild writes beside the sources, so it gets a copy of them.
    mkdir -p "$out"
    rm -f "$module"
    cp "$here/pmuvisor_nmi.c" "$here/Makefile" "$out/"
    env -u MAKEFLAGS -u MAKELEVEL -u CFLAGS -u CC make -C "$headers" M="$out" \
        PMUVISOR_INCLUDE="$top/include" modules > "$out/build.log" 2>&1 ||
        fail "the module does not build: $(grep -m 1 -iE 'error|not found' "$out/build.log" ||
            tail -n 1 "$out/build.log") (all of it: $out/build.log)"
    [ ! -e "$module" ] || strip --strip-debug "$module"
fi
[ -s "$module" ] || fail "$module is not there after the build, see $out/build.log"
echo "$module"
