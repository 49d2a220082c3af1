# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
# facts.sh: the environment of a column, as lines `env: KEY="VALUE"` (bench/README.md). Reads /proc,
# /sys and, for turbo, IA32_MISC_ENABLE. Sourced by auto.sh. SDM Vol. 4, "IA32_MISC_ENABLE".
# shellcheck disable=SC2154 # auto.sh sets column, column_name, command_line, bench

fact() {
    printf 'env: %s="%s"\n' "$1" "$(echo "$2" | tr -d '"')"
}

# The emulator's ACPI tables say what they are; other machines of software name their maker.
kind_of_machine() {
    if grep -q TESTBED /sys/firmware/acpi/tables/FACP 2> /dev/null; then
        echo emulator
        return
    fi
    case $(cat /sys/class/dmi/id/sys_vendor /sys/class/dmi/id/product_name 2> /dev/null) in
        *QEMU* | *KVM* | *VMware* | *VirtualBox* | *Xen* | *"Virtual Machine"*) echo nested ;;
        *) echo metal ;;
    esac
}

turbo() {
    # Eight bytes a register: bit 38, "Turbo Mode Disable", is in byte 4.
    insmod /lib/modules/msr.ko 2> /dev/null
    byte=$(dd if=/dev/cpu/0/msr bs=8 skip=$((0x1a0 / 8)) count=1 2> /dev/null |
        od -A n -t u1 | awk '{ print $5 }')
    [ -n "$byte" ] || return
    if [ $((byte & 64)) -ne 0 ]; then echo off; else echo on; fi
}

print_facts() {
    fact kind "$(kind_of_machine)"
    fact column "$column_name"
    fact cpu "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)"
    fact kernel "$(uname -r)"
    [ "$column" != kvm ] || fact kvm "of Linux $(uname -r)"
    fact date "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
    fact tick 0
    fact mitigations "$(for each in $command_line; do
        case $each in
            mitigations=* | indirect_target_selection=* | spectre_bhi=*) echo "$each" ;;
        esac
    done | tr '\n' ' ' | sed 's/ $//')"
    fact turbo "$(turbo)"
    fact frequency "$(dmesg | sed -n 's/.*tsc: Detected \(.*\) processor.*/\1/p' | head -n 1)"
    cat "$bench/build.txt" 2> /dev/null
}
