#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What a stick needs to start where Secure Boot is on, besides files that its owner signs: Debian's
# shim, which Microsoft signed, and MokManager. GRUB takes nothing to be signed there but what
# shim's protocol says is (GRUB manual, "UEFI secure boot and shim support"; "Lockdown"), and
# --disable-shim-lock alone has it refuse everything. shim in turn takes no GRUB without SBAT (shim,
# SBAT.md): ours has that of Debian's signed GRUB, which has the same modules. Prints a folder with
# shimx64.efi, mmx64.efi and grub.sbat. Installed packages are taken as they are; others are fetched
# into the cache and not installed, for shim's would change how this machine starts.
# Usage: shim.sh
set -euo pipefail

fail() {
    echo "shim.sh: $*" >&2
    exit 1
}

packages=(shim-signed shim-helpers-amd64-signed grub-efi-amd64-signed)
# shellcheck source=programs/suite.sh
. "$(dirname "$0")/../programs/suite.sh"
for tool in apt-get dpkg-deb dpkg-query objcopy; do
    command -v $tool > /dev/null || fail "$tool is missing; on Debian run: testbed/deps.sh build"
done
cache=${PMUVISOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pmuvisor}/shim/$suite
mkdir -p "$cache"
exec 9> "$cache/lock"
flock 9
work=$(mktemp -d "$cache/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT

shim=usr/lib/shim/shimx64.efi.signed
manager=usr/lib/shim/mmx64.efi.signed
grub=usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed
there() {
    [ -r "$1/$shim" ] && [ -r "$1/$manager" ] && [ -r "$1/$grub" ]
}

# The SBAT of the GRUB below $1, and the version of its source in it.
sbat_of() {
    objcopy -O binary --only-section=.sbat "$1/$grub" "$work/section"
    tr -d '\0' < "$work/section"
}
version_of() {
    sbat_of "$1" | sed -n 's/^grub\.debian,[^,]*,[^,]*,[^,]*,\([^,]*\),.*/\1/p'
}

# Of the modules that the stick's GRUB is made of; not known where they are another GRUB's.
version=
[ -n "${GRUB_MODULES:-}" ] ||
    version=$(dpkg-query -W -f '${source:Version}' grub-efi-amd64-bin 2> /dev/null) ||
    fail "GRUB's modules are missing; run: testbed/deps.sh run"
is_right() {
    there "$1" && { [ -z "$version" ] || [ "$(version_of "$1")" = "$version" ]; }
}

root=$cache/root
if is_right ''; then
    root=''
elif ! is_right "$root"; then
    fetch_packages "$work" "$root" "${packages[@]}"
    there "$root" || fail "${packages[*]}: wanted $shim, $manager and $grub in them"
    is_right "$root" || fail "found GRUB's modules of $version and a signed GRUB of" \
        "$(version_of "$root"), wanted one version; run: apt-get update && apt-get install" \
        "grub-efi-amd64-bin"
fi
mkdir "$work/out"
cp "$root/$shim" "$work/out/shimx64.efi"
cp "$root/$manager" "$work/out/mmx64.efi"
sbat_of "$root" > "$work/out/grub.sbat"
# Another stick may be copying it.
if ! diff -r "$work/out" "$cache/out" > /dev/null 2>&1; then
    rm -rf "$cache/out"
    mv "$work/out" "$cache/out"
fi
echo "$cache/out"
