#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# image.sh: prints the image for these options of PMUvisor: pmuvisor-lab.efi where one of them is an
# experiment's, by the tables in experiments/*/hypervisor/options.h, or a policy of an experiment's,
# else pmuvisor.efi.
# Usage: image.sh "k=v ..." [FOLDER] (default: build/ of the project)
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
shopt -s nullglob
tables=("$top"/experiments/*/hypervisor/{options.h,experiment.c})
keys=" $(sed -n -e 's/^ *OPTION(\([a-z0-9_]*\),.*/\1/p' \
    -e 's/^ *\.policy = {"\([a-z0-9_+-]*\)".*/policy=\1/p' /dev/null "${tables[@]}" | tr '\n' ' ')"
image=pmuvisor.efi
while read -ra words; do
    for word in "${words[@]}"; do
        key=${word%%=*}
        case $key in
            '#'* | append) break ;; # the rest of the line is a comment, or the kernel's
        esac
        [[ $keys != *" $key "* && $keys != *" $word "* ]] || image=pmuvisor-lab.efi
    done
done <<< "${1:-}"
echo "${2:-$top/build}/$image"
