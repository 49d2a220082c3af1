#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# examples.sh: compiles libpfm4's examples from the sources that libpfm4-dev has, without a change.
# They want a header that the package lacks, and the C library's of that name will do.
# Usage: examples.sh FOLDER PACKAGES   debian.sh calls it
set -euo pipefail
folder=$1 packages=$2
mkdir -p "$folder/tool"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/perfmon"
echo '#include <err.h>' > "$work/perfmon/err.h"
for name in showevtinfo check_events; do
    "${CC:-gcc}" -w -O2 -static -I "$packages/usr/include" -I "$work" -o "$folder/tool/$name" \
        "$packages/usr/share/doc/libpfm4-dev/examples/$name.c" \
        "$packages/usr/lib/x86_64-linux-gnu/libpfm.a"
done
