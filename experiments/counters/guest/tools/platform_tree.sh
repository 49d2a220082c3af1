#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# platform_tree.sh: makes a folder anew with tools that read the platform's registers, for the guest's root,
# as Debian packages them: likwid with its groups, pcm, turbostat, cpupower, hwloc.
# Usage: platform_tree.sh FOLDER PACKAGES
set -euo pipefail

fail() {
    echo "tools/platform_tree.sh: $*" >&2
    exit 1
}

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=programs/payload/parts.sh
. "$here/../../../../programs/payload/parts.sh"
folder=$1 packages=$2
root=$folder.new
rm -rf "$root"
mkdir -p "$root"/{usr/bin,usr/share,etc}

# likwid looks for its daemon by bash, also where it does not use it.
for program in bin/bash usr/bin/{lua5.3,likwid-bench,cpupower,lstopo-no-graphics,hwloc-info} \
    usr/sbin/{likwid-accessD,pcm,pcm-core,pcm-msr,turbostat}; do
    add_program "$root" "$packages" "$program"
done
rm "$root"/lib/x86_64-linux-gnu/liblikwid.so.5.2
# likwid's other programs are scripts for Lua, which load its library by its path. Its groups of events
# are of many processors.
libraries=usr/lib/x86_64-linux-gnu
mkdir -p "$root/$libraries" "$root/usr/share/likwid/perfgroups"
for program in likwid-topology likwid-perfctr likwid-powermeter; do
    cp "$packages/usr/bin/$program" "$root/usr/bin/"
done
cp -L "$packages/$libraries"/{liblikwid,liblikwidpin}.so.5.2 "$root/$libraries/"
for library in liblikwid liblikwidpin; do
    ln -s "$library.so.5.2" "$root/$libraries/$library.so"
    ln -s "$library.so.5.2" "$root/$libraries/$library.so.5"
done
for library in liblua5.3.so.0 libhwloc.so.15 libudev.so.1; do
    cp -L "$packages/$libraries/$library" "$root/lib/x86_64-linux-gnu/"
done
cp -r "$packages/usr/share/lua" "$root/usr/share/"
cp -r "$packages/usr/share/likwid/perfgroups/skylakeX" "$root/usr/share/likwid/perfgroups/"
rm -rf "$folder"
mv "$root" "$folder"
touch "$folder"
