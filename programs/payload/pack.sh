#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Packs an initramfs: the same bytes for the same files. programs/images.mk calls it.
# Usage: pack.sh IMAGE MODULES PACKAGES WORD...   MODULES: the folder of a kernel's modules;
# PACKAGES: the one that fetch.sh printed. Each word is something in the guest's root; of two at one
# place the later one, and a word that was there before is nothing new:
#   PLACE=FILE   a file; of a folder all that is in it
#   PLACE@NAME   a link
#   PLACE/       an empty folder
#   NAME.ko      the kernel's own module
#   disk:NAME    a module with all that it needs, in that order in lib/modules/storage.order
#   deb:PATH     a program of Debian's with its libraries
#   busybox      busybox under the name of each of its applets
# An image with Debian's perf is large: it is compressed. A small one stays as it is: reading it is
# cheaper in an emulator than unpacking it.
set -euo pipefail
umask 022

fail() {
    echo "pack.sh: $*" >&2
    exit 1
}
# shellcheck source=programs/payload/parts.sh
. "$(dirname "$0")/parts.sh"
image=$1 modules=$2 packages=$3
shift 3
root=$(mktemp -d "$(dirname "$image")/.root.XXXXXX")
trap 'rm -rf "$root" "$root.new"' EXIT

add_file() { # add_file PLACE FILE
    if [ -d "$2" ]; then
        mkdir -p "$root/$1"
        cp -r --remove-destination "$2/." "$root/$1/"
    else
        mkdir -p "$root/$(dirname "$1")"
        cp --remove-destination "$2" "$root/$1"
    fi
}

# A module's own list of what it needs, as modinfo would print it.
depends() { # depends FILE.ko
    grep -azo '^depends=.*' "$1" | tr '\0,' '[\n*]' | sed 's/^depends=//'
}

# The name of a module may be written with - or _. One that the kernel lacks or has built in is left
# out.
declare -A added=()
add_with_needs() { # add_with_needs NAME
    local name=${1//-/_} file need
    [ -z "${added[$name]:-}" ] || return 0
    added[$name]=1
    file=$(find "$modules" -name "${name//_/[_-]}.ko*" -print -quit)
    [ -n "$file" ] || return 0
    file=$(basename "$file")
    file=${file%%.ko*}
    add_module "$root" "$modules" "$file"
    while read -r need; do
        [ -z "$need" ] || add_with_needs "$need"
    done < <(depends "$root/lib/modules/$file.ko")
    echo "$file" >> "$root/lib/modules/storage.order"
}

compress=(cat)
declare -A seen=()
for word in "$@"; do
    [ -z "${seen[$word]:-}" ] || continue
    seen[$word]=1
    case $word in
        *=*) add_file "${word%%=*}" "${word#*=}" ;;
        *@*) ln -sf "${word#*@}" "$root/${word%%@*}" ;;
        */) mkdir -p "$root/$word" ;;
        disk:*) add_with_needs "${word#disk:}" ;;
        deb:*)
            add_program "$root" "$packages" "${word#deb:}"
            [ "$word" != deb:usr/bin/perf ] || compress=(lz4 -q -l -9)
            ;;
        busybox) add_busybox "$root" "$packages" ;;
        *.ko) add_module "$root" "$modules" "${word%.ko}" ;;
        *) fail "unknown word '$word'" ;;
    esac
done
chmod -R u=rwX,go=rX "$root"
find "$root" -exec touch --no-dereference --date=@1704067200 {} +
archive "$root" | "${compress[@]}" > "$root.new"
mv "$root.new" "$image"
