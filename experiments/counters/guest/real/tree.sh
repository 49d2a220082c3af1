# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154 # root, packages and names are debian.sh's and make's
# tree.sh: adds to a folder real programs of Debian's, the words of $names, with symbols and inputs.
# Sourced by debian.sh.
here=experiments/counters/guest/real

# A program of the packages at the place where the job looks for it.
add() { # add PATH [PLACE]
    add_program "$root" "$packages" "$1"
    [ -z "${2:-}" ] || mv "$root/$1" "$root/$2"
}

only() { # only PATTERN: the one file of the packages whose path has it
    local found
    found=$(cd "$packages" && find . -path "./$1" -type f -printf '%P\n' | head -n 1)
    [ -n "$found" ] || fail "the packages have no $1 (fetch.sh --update?)"
    echo "$found"
}

mkdir -p "$root"/{bin,usr/bin,usr/lib,real/in}
for name in $names; do
    case $name in
        gzip | bzip2) add "bin/$name" ;;
        python3)
            python=$(only 'usr/bin/python3.*')
            add "$python" usr/bin/python3
            library=usr/lib/$(basename "$python")
            mkdir -p "$root/$library"
            cp -r "$packages/$library/." "$root/$library/"
            find "$root/$library" -name __pycache__ -prune -exec rm -r {} +
            ;;
        cc1) add "$(only 'usr/lib*/gcc/x86_64-linux-gnu/*/cc1')" usr/bin/cc1 ;;
        *) add "usr/bin/$name" ;;
    esac
done
echo "$names" > "$root/real/programs"
/usr/bin/python3 -B "$here/inputs.py" 1 "$root/real/in"

# Symbols of all that is sampled, and not of what perf is linked with.
while read -r file; do
    # Not grep -q, which leaves before readelf has written all: that then fails.
    if readelf --notes "$file" 2> /dev/null | grep 'Build ID' > /dev/null &&
        ! readelf --wide --section-headers "$file" | grep ' \.symtab ' > /dev/null; then
        /usr/bin/python3 -B "$here/functions.py" "$file" "$root"
    fi
done < <(find "$root" -type f)
