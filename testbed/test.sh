#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Unit tests of the emulator library's parts that know no Bochs, on the host, under AddressSanitizer
# and UBSan. Touches only a temporary folder.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
pure=(events exit_paths floating guest_files platform pmu pmu_cpuid lbr arch_lbr ds pebs bts
    microarch topdown ledger ledger_json lines inject knobs noise pt pt_msrs pt_output pt_packets
    pt_time)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

shopt -s nullglob
# What experiments have of the library, less what knows Bochs (part.h), and of its tests.
cat /dev/null "$top"/experiments/*/emulator/parts.inc > "$work/parts.inc"
sources=("$top"/tests/unit/testbed/*.cc "$top"/experiments/*/tests/emulator/*.cc)
for source in "$top"/experiments/*/emulator/*.cc; do
    [[ $source == *_part.cc ]] || sources+=("$source")
done
for part in "${pure[@]}"; do
    sources+=("$top/testbed/instrument/$part.cc")
done
experiments=()
for folder in "$top"/experiments/*/{emulator,hypervisor}; do
    experiments+=(-idirafter "$folder")
done
"${CXX:-g++}" -std=c++17 -O1 -g -Wall -Wextra -Werror -fsanitize=address,undefined \
    -fno-sanitize-recover=all -I "$top/testbed/instrument" -I "$top/tests/unit/testbed" -I "$work" \
    -idirafter "$top/include" "${experiments[@]}" \
    -o "$work/test" "${sources[@]}" -lipt
timeout 21600 "$work/test"
