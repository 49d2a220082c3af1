#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# tree.sh: makes a folder anew with Debian's rr, for the guest's root, and what it records: our
# programs, linked as rr likes them and statically, and some of Debian's. Usage: tree.sh FOLDER
# PACKAGES
set -euo pipefail

fail() {
    echo "rr/tree.sh: $*" >&2
    exit 1
}

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=programs/payload/parts.sh
. "$here/../../../../programs/payload/parts.sh"
folder=$1 packages=$2
root=$folder.new
cc=${CC:-gcc}
rm -rf "$root"
mkdir -p "$root"/{bin,rr,tool,usr/lib}

# Debian 12 has some of them in /bin, 13 all in /usr/bin.
where() { # where NAME
    if [ -e "$packages/bin/$1" ]; then echo "bin/$1"; else echo "usr/bin/$1"; fi
}

for name in rr dash gzip sqlite3; do
    add_program "$root" "$packages" "$(where "$name")"
done
# rr looks for these beside its own program; those for 32-bit programs, too.
[ -d "$packages/usr/lib/rr" ] || fail "the packages have no usr/lib/rr (fetch.sh --update?)"
cp -r "$packages/usr/lib/rr" "$root/usr/lib/"
cp -L "$packages"/*/x86_64-linux-gnu/libdl.so.2 "$root/lib/x86_64-linux-gnu/" 2> /dev/null || true
for name in dash gzip; do
    [ -e "$root/bin/$name" ] || mv "$root/usr/bin/$name" "$root/bin/$name"
done

# rr takes a file that can be executed for one that stays as it is.
chmod 755 "$root"/lib/x86_64-linux-gnu/* "$root"/usr/lib/rr/*

flags=(-std=gnu11 -O1 -Wall -Wextra -Werror -pthread)
"$cc" "${flags[@]}" -o "$root/rr/programs" "$here"/*.c || fail "cannot compile the programs"
"$cc" "${flags[@]}" -static -o "$root/rr/static" "$here"/*.c ||
    fail "cannot compile the static programs"
mkdir "$root/rr/inputs"
/usr/bin/python3 -B "$here/../real/inputs.py" 1 "$root/rr/inputs"
cp "$here"/{rr,script}.sh "$root/rr/"
cp "$here/prepare.sh" "$root/tool/prepare"
rm -rf "$folder"
mv "$root" "$folder"
touch "$folder"
