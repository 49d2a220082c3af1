#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# tree.sh: makes a folder anew with real programs, for the guest's root: Debian's, out of the folder
# of its packages, with symbols and inputs. Usage: tree.sh FOLDER PACKAGES NAME...
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
fail() {
    echo "real/tree.sh: $*" >&2
    exit 1
}
# shellcheck source=programs/payload/parts.sh
. "$here/../../../../programs/payload/parts.sh"
folder=$1 packages=$2
shift 2
own=$folder.new
rm -rf "$own"

# A program of the packages at the place where the job looks for it.
add() { # add PATH [PLACE]
    add_program "$own" "$packages" "$1"
    [ -z "${2:-}" ] || mv "$own/$1" "$own/$2"
}

only() { # only PATTERN: the one file of the packages whose path has it
    local found
    found=$(cd "$packages" && find . -path "./$1" -type f -printf '%P\n' | head -n 1)
    [ -n "$found" ] || fail "the packages have no $1 (fetch.sh --update?)"
    echo "$found"
}

# Debian 12 has some of them in /bin, 13 all in /usr/bin.
where() { # where NAME
    if [ -e "$packages/bin/$1" ]; then echo "bin/$1"; else echo "usr/bin/$1"; fi
}

mkdir -p "$own"/{bin,usr/bin,usr/lib,real/in}
for name in "$@"; do
    case $name in
        gzip | bzip2)
            add "$(where "$name")"
            [ -e "$own/bin/$name" ] || mv "$own/usr/bin/$name" "$own/bin/$name"
            ;;
        python3)
            python=$(only 'usr/bin/python3.*')
            add "$python" usr/bin/python3
            library=usr/lib/$(basename "$python")
            mkdir -p "$own/$library"
            cp -r "$packages/$library/." "$own/$library/"
            find "$own/$library" -name __pycache__ -prune -exec rm -r {} +
            ;;
        cc1) add "$(only 'usr/lib*/gcc/x86_64-linux-gnu/*/cc1')" usr/bin/cc1 ;;
        *) add "usr/bin/$name" ;;
    esac
done
echo "$*" > "$own/real/programs"
/usr/bin/python3 -B "$here/inputs.py" 1 "$own/real/in"

# Symbols of all that is sampled, and not of what perf is linked with.
while read -r file; do
    # Not grep -q, which leaves before readelf has written all: that then fails.
    if readelf --notes "$file" 2> /dev/null | grep 'Build ID' > /dev/null &&
        ! readelf --wide --section-headers "$file" | grep ' \.symtab ' > /dev/null; then
        /usr/bin/python3 -B "$here/functions.py" "$file" "$own"
    fi
done < <(find "$own" -type f)
rm -rf "$folder"
mv "$own" "$folder"
touch "$folder"
