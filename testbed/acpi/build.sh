#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Compiles the emulated machine's ACPI tables for GRUB's `acpi` command: dsdt.aml, facp.aml,
# hpet.aml, and apic.aml, which is written here because it lists the processors.
# Usage: testbed/acpi/build.sh OUTDIR CPUS
set -euo pipefail

max_cpus=64

die() {
    echo "testbed/acpi/build.sh: $*" >&2
    exit 1
}

# One field of iasl's data table language: size in bytes, name, value.
field() {
    printf '[%04d] %s : %s\n' "$1" "$2" "$3"
}

# One bit field of the field before it.
flag() {
    printf '%s : %s\n' "$1" "$2"
}

subtable() {
    field 1 "Subtable Type" "$1"
    field 1 "Length" "$2"
}

# The MADT for $1 processors. ACPI Specification, "Multiple APIC Description Table".
apic_asl() {
    local cpus=$1 n
    field 4 "Signature" '"APIC"'
    field 4 "Table Length" 00000000
    field 1 "Revision" 01
    field 1 "Checksum" 00
    field 6 "Oem ID" '"PMUV"'
    field 8 "Oem Table ID" '"TESTBED"'
    field 4 "Oem Revision" 00000001
    field 4 "Asl Compiler ID" '"INTL"'
    field 4 "Asl Compiler Revision" 00000000
    field 4 "Local Apic Address" FEE00000
    field 4 "Flags (decoded below)" 00000001
    flag "PC-AT Compatibility" 1
    for ((n = 0; n < cpus; n++)); do
        subtable 00 08
        field 1 "Processor ID" "$(printf %02X "$n")"
        field 1 "Local Apic ID" "$(printf %02X "$n")"
        field 4 "Flags (decoded below)" 00000001
        flag "Processor Enabled" 1
        flag "Runtime Online Capable" 0
    done
    subtable 01 0C
    field 1 "I/O Apic ID" "$(printf %02X "$cpus")"
    field 1 "Reserved" 00
    field 4 "Address" FEC00000
    field 4 "Interrupt" 00000000
    # The timer's input is 2; the SCI is level triggered, active high.
    subtable 02 0A
    field 1 "Bus" 00
    field 1 "Source" 00
    field 4 "Interrupt" 00000002
    field 2 "Flags (decoded below)" 0000
    flag "Polarity" 0
    flag "Trigger Mode" 0
    subtable 02 0A
    field 1 "Bus" 00
    field 1 "Source" 09
    field 4 "Interrupt" 00000009
    field 2 "Flags (decoded below)" 000D
    flag "Polarity" 1
    flag "Trigger Mode" 3
    # LINT1 is every processor's NMI.
    subtable 04 06
    field 1 "Processor ID" FF
    field 2 "Flags (decoded below)" 0000
    flag "Polarity" 0
    flag "Trigger Mode" 0
    field 1 "Interrupt Input LINT" 01
}

[ $# -eq 2 ] || die "wanted OUTDIR CPUS, found $# arguments"
out=$1
cpus=$2
if ! [[ $cpus =~ ^[1-9][0-9]?$ ]] || [ "$cpus" -gt "$max_cpus" ]; then
    die "CPUS: found '$cpus', wanted 1 to $max_cpus"
fi
command -v iasl > /dev/null || die "iasl not found: install the packages that testbed/deps.sh lists"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here"/dsdt.asl "$here"/facp.asl "$here"/hpet.asl "$work/"
apic_asl "$cpus" > "$work/apic.asl"
for table in dsdt facp apic hpet; do
    (cd "$work" && iasl -va -p "$table" "$table.asl") > "$work/$table.log" 2>&1 ||
        die "$table.asl: iasl says:" \
            "$(grep -m 1 Error "$work/$table.log" || tail -n 1 "$work/$table.log")"
    mv "$work/$table.aml" "$out/"
done
