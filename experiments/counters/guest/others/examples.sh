# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154 # root and packages are debian.sh's
# examples.sh: compiles libpfm4's examples from the sources that libpfm4-dev has, without a change.
# They want a header that the package lacks, and the C library's of that name will do. Sourced by
# debian.sh.
mkdir -p "$root/tool"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/perfmon"
echo '#include <err.h>' > "$work/perfmon/err.h"
for name in showevtinfo check_events; do
    "${CC:-gcc}" -w -O2 -static -I "$packages/usr/include" -I "$work" -o "$root/tool/$name" \
        "$packages/usr/share/doc/libpfm4-dev/examples/$name.c" \
        "$packages/usr/lib/x86_64-linux-gnu/libpfm.a"
done
