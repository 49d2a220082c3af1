#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Firmware of a Debian: its OVMF as one image of 2 or 4 MiB, and the modules of its GRUB. Installed
# packages are taken as they are, those of the other suite are fetched into the cache. Debian 13
# ships no image of 2 MiB: firmware_2m.sh builds it. Prints two lines: the image (run.sh --firmware)
# and the folder (disk.sh --grub).
# Usage: firmware.sh [--update] bookworm-2M|bookworm-4M|trixie-2M|trixie-4M
set -euo pipefail

fail() {
    echo "firmware.sh: $*" >&2
    exit 1
}

update=()
if [ "${1:-}" = --update ]; then
    update=("$1")
    shift
fi
case ${1:-} in
    bookworm-2M) part='' ;;
    bookworm-4M | trixie-2M | trixie-4M) part=_4M ;;
    *) fail "found '${1:-}', wanted bookworm-2M, bookworm-4M, trixie-2M or trixie-4M" ;;
esac
wanted=${1%-*}
packages=(ovmf grub-efi-amd64-bin)

# shellcheck source=programs/suite.sh
. "$(dirname "$0")/../programs/suite.sh"
cache=${PMUVISOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pmuvisor}/firmware/$wanted
mkdir -p "$cache"
exec 9> "$cache/lock"
flock 9
work=$(mktemp -d "$cache/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT

there() {
    [ -r "$1/usr/share/OVMF/OVMF_CODE$part.fd" ] && [ -r "$1/usr/share/OVMF/OVMF_VARS$part.fd" ] &&
        [ -r "$1/usr/lib/grub/x86_64-efi/kernel.img" ]
}

root=$cache/root
if [ "$wanted" = "$suite" ] && there ''; then
    root=''
elif [ ${#update[@]} -gt 0 ] || ! there "$root"; then
    use_suite "$wanted" "$cache/apt"
    fetch_packages "$work" "$root" "${packages[@]}"
    there "$root" || fail "${packages[*]} of $wanted: found $(ls -m "$root/usr/share/OVMF")," \
        "wanted OVMF_CODE$part.fd, OVMF_VARS$part.fd and GRUB's kernel.img"
fi
# As one image: the variables lie below the code (EDK II, OvmfPkg/OvmfPkgDefines.fdf.inc).
image=$cache/OVMF${part:-_2M}.fd
cat "$root/usr/share/OVMF"/OVMF_{VARS,CODE}"$part.fd" > "$work/image"
cmp -s "$work/image" "$image" || mv "$work/image" "$image"
if [ "$1" = trixie-2M ]; then
    flock --unlock 9
    image=$("$(dirname "$0")/firmware_2m.sh" "${update[@]}")
fi
printf '%s\n%s\n' "$image" "$root/usr/lib/grub/x86_64-efi"
