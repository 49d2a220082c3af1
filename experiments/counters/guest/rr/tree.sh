# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154 # root and packages are debian.sh's
# tree.sh: adds to a folder with Debian's rr what it records: our programs, linked as rr likes them
# and statically, and inputs of some of Debian's. Sourced by debian.sh.
here=experiments/counters/guest/rr
mkdir -p "$root"/{rr,tool}
cp -L "$packages"/*/x86_64-linux-gnu/libdl.so.2 "$root/lib/x86_64-linux-gnu/" 2> /dev/null || true
# rr takes a file that can be executed for one that stays as it is.
chmod 755 "$root"/lib/x86_64-linux-gnu/* "$root"/usr/lib/rr/*

cc=${CC:-gcc} flags=(-std=gnu11 -O1 -Wall -Wextra -Werror -pthread)
"$cc" "${flags[@]}" -o "$root/rr/programs" "$here"/*.c || fail "cannot compile the programs"
"$cc" "${flags[@]}" -static -o "$root/rr/static" "$here"/*.c ||
    fail "cannot compile the static programs"
mkdir -p "$root/rr/inputs"
/usr/bin/python3 -B "$here/../real/inputs.py" 1 "$root/rr/inputs"
cp "$here"/{rr,script}.sh "$root/rr/"
cp "$here/prepare.sh" "$root/tool/prepare"
