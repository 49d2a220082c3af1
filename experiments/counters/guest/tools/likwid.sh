# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154 # root and packages are debian.sh's
# likwid.sh: adds to a folder the files of likwid that are not programs. Its other programs are
# scripts for Lua, which load its libraries by their paths. Only Skylake-SP's groups of events are
# taken, because the groups of all processors are large. Sourced by debian.sh.

libraries=usr/lib/x86_64-linux-gnu
# Debian 12 has version 5.2, Debian 13 has 5.4. The name contains the version.
found=("$packages/$libraries"/liblikwid.so.*.*)
version=${found[0]##*/liblikwid.so.}
[[ ${#found[@]} -eq 1 && $version =~ ^[0-9]+\.[0-9]+$ ]] ||
    fail "the packages have no liblikwid.so of one version (fetch.sh --update?)"
# add_program has already copied this library, for likwid-bench. The scripts want it elsewhere.
rm "$root/lib/x86_64-linux-gnu/liblikwid.so.$version"
mkdir -p "$root/$libraries" "$root/usr/share/likwid/perfgroups"
for program in likwid-topology likwid-perfctr likwid-powermeter; do
    cp "$packages/usr/bin/$program" "$root/usr/bin/"
done
for library in liblikwid liblikwidpin; do
    cp -L "$packages/$libraries/$library.so.$version" "$root/$libraries/"
    ln -s "$library.so.$version" "$root/$libraries/$library.so"
    ln -s "$library.so.$version" "$root/$libraries/$library.so.${version%%.*}"
done
for library in liblua5.3.so.0 libhwloc.so.15 libudev.so.1; do
    cp -L "$packages/$libraries/$library" "$root/lib/x86_64-linux-gnu/"
done
cp -r "$packages/usr/share/lua" "$root/usr/share/"
cp -r "$packages/usr/share/likwid/perfgroups/skylakeX" "$root/usr/share/likwid/perfgroups/"
