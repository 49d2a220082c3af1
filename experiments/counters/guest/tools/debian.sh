#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# debian.sh: makes a folder anew with programs of Debian's as they are, for the guest's root.
# Usage: debian.sh FOLDER PACKAGES WORD...   PACKAGES: the folder that programs/workloads/fetch.sh
# printed. A word is the path of a program, which comes with its libraries; data:PATH is a file or a
# folder without; also:SCRIPT is sourced, and puts more from $packages into $root.
set -euo pipefail

fail() {
    echo "tools/debian.sh: $*" >&2
    exit 1
}

# shellcheck source=programs/payload/parts.sh
. "$(dirname "$0")/../../../../programs/payload/parts.sh"
folder=$1 packages=$2
shift 2
root=$folder.new
rm -rf "$root"
mkdir -p "$root"
for word in "$@"; do
    case $word in
        data:*)
            word=${word#data:}
            [ -e "$packages/$word" ] || fail "the packages have no $word (fetch.sh --update?)"
            mkdir -p "$root/$(dirname "$word")"
            cp -a "$packages/$word" "$root/$(dirname "$word")/"
            ;;
        also:*)
            # shellcheck source=/dev/null
            (. "${word#also:}")
            ;;
        *) add_program "$root" "$packages" "$word" ;;
    esac
done
rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
mv "$root" "$folder"
touch "$folder"
