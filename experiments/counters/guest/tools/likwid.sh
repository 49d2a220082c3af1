#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# likwid.sh: puts into a folder what of likwid is no program: its other programs are scripts for
# Lua, which load its library by its path, and its groups of events are of many processors. Usage:
# likwid.sh FOLDER PACKAGES
set -euo pipefail

root=$1 packages=$2
libraries=usr/lib/x86_64-linux-gnu
rm "$root"/lib/x86_64-linux-gnu/liblikwid.so.5.2
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
