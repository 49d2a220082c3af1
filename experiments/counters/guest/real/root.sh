#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# root.sh: adds the real programs, their inputs and the job `real` to the guest's root. Not all to
# every image: the compiler alone has 33 MB. Usage: root.sh ROOT [all]    (default: gzip and glpsol)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../../.." && pwd)
fail() {
    echo "real/root.sh: $*" >&2
    exit 1
}
# shellcheck source=programs/payload/parts.sh
. "$top/programs/payload/parts.sh"
[ -d "${1:-}" ] || fail "no folder '${1:-}'; usage: root.sh ROOT [all]"
root=$1
case ${2:-} in
    '') wanted=(gzip glpsol) ;;
    all) wanted=(gzip bzip2 xz sqlite3 python3 cc1 glpsol) ;;
    *) fail "found '$2', wanted all or nothing" ;;
esac
own=$(mktemp -d "$root/.real.XXXXXX")
trap 'rm -rf "$own"' EXIT
packages=$("$top/programs/workloads/fetch.sh" gzip bzip2 xz-utils sqlite3 glpk-utils \
    python3-minimal cpp)

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

mkdir -p "$own"/{bin,usr/bin,usr/lib} "$root"/{jobs,workloads,real/in}
for name in "${wanted[@]}"; do
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
echo "${wanted[*]}" > "$root/real/programs"
install -m 755 "$here/real.sh" "$root/jobs/real"
install -m 644 "$top/programs/workloads/common.sh" "$root/workloads/common.sh"
install -m 644 "$here/stones.py" "$here/inputs.py" "$root/real/"
"${CC:-gcc}" -std=gnu11 -O2 -Wall -Wextra -Werror -static -s -I "$top" \
    -o "$root/real/marked" "$here/marked.c"
/usr/bin/python3 -B "$here/inputs.py" 1 "$root/real/in"

# Symbols of all that is sampled, and not of what perf is linked with.
while read -r file; do
    if readelf --notes "$file" 2> /dev/null | grep -q 'Build ID' &&
        ! readelf --wide --section-headers "$file" | grep -q ' \.symtab '; then
        /usr/bin/python3 -B "$here/functions.py" "$file" "$own"
    fi
done < <(find "$own" -type f)
# What busybox has under these names is a link, and must not be written through.
cp -r --remove-destination "$own/." "$root/"
