#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# root.sh: adds this folder's job and programs to the guest's root in the given folder. Called by
# programs/payload/build.sh, which says what an image is made of.
# Usage: root.sh ROOT
set -euo pipefail

root=$1
here=$(cd "$(dirname "$0")" && pwd)
cc=${CC:-gcc}
warnings=(-std=gnu11 -Wall -Wextra -Werror -static -I "$here/../../..")

mkdir -p "$root/jobs"
"$cc" "${warnings[@]}" -O1 -ffreestanding -nostdlib -fno-pie -no-pie -fno-stack-protector \
    -fcf-protection=none -fno-asynchronous-unwind-tables -o "$root/br_instr" "$here/br_instr.c"
"$cc" "${warnings[@]}" -O2 -s -o "$root/region" "$here/region.c"
install -m 755 "$here/pebs.sh" "$root/jobs/pebs"
