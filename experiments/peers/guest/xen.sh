#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Fetches Debian's Xen into the cache and prints the path of its EFI program. The suite's own
# hypervisor is taken, unmodified, and nothing is installed.
# Usage: xen.sh
set -euo pipefail

fail() {
    echo "peers/xen.sh: $*" >&2
    exit 1
}

[ $# -eq 0 ] || fail "found '$1', wanted no argument"
top=$(cd "$(dirname "$0")/../../.." && pwd)
meta=xen-system-amd64
# The meta package depends on one hypervisor, whose name carries the version.
package=$(apt-cache depends "$meta" 2> /dev/null |
    sed -n 's/^ *Depends: \(xen-hypervisor-[0-9][^ ]*\)$/\1/p' | sed -n 1p)
[ -n "$package" ] ||
    fail "apt-cache knows no $meta; as root run: apt-get update (Debian 12 or 13 is needed)"
root=$("$top/programs/workloads/fetch.sh" "$package")
image=$(find "$root/boot" -name 'xen-*.efi' | sort | sed -n 1p)
[ -n "$image" ] || fail "$package: found no boot/xen-*.efi, wanted one; found: $(ls "$root/boot")"
echo "$image"
