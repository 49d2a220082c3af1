# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
# facts.sh: the environment of a column, as lines `env: KEY="VALUE"` (bench/README.md). Reads /proc,
# /sys and MSRs by processor.sh; sets cpufreq's governor. Sourced by auto.sh.
# SDM Vol. 4, "IA32_MISC_ENABLE", "IA32_APIC_BASE".
# shellcheck disable=SC2154 # auto.sh sets column_name, command_line, bench

fact() {
    printf 'env: %s="%s"\n' "$1" "$(echo "$2" | tr -d '"')"
}

# What the firmware says of machines that are software; of a cloud's bare ones too, by their names.
software_by_name() {
    names=$(for each in sys_vendor product_name bios_vendor board_vendor; do
        cat "/sys/class/dmi/id/$each" 2> /dev/null
    done)
    case $names in
        *"Amazon EC2"*.metal*) return 1 ;;
        *QEMU* | *KVM* | *Bochs* | *VMware* | *VirtualBox* | *innotek* | *Parallels* | *bhyve* | \
            *BHYVE* | *Xen* | *"HVM domU"* | *"Virtual Machine"* | *"Virtual Platform"* | \
            *"Cloud Hypervisor"* | *"Apple Virtualization"* | *"Amazon EC2"* | \
            *"Google Compute Engine"* | *OpenStack* | *"Alibaba Cloud"* | *"Tencent Cloud"* | \
            *DigitalOcean* | *vServer* | *Linode* | *Vultr* | *UpCloud* | *Nutanix* | \
            *oVirt* | *RHEV*) return 0 ;;
    esac
    return 1
}

# The emulator's ACPI tables say what they are. Elsewhere CPUID has a bit for software, which under
# PMUvisor is PMUvisor's own: there the column that was measured without it is asked.
kind_of_machine() {
    if grep -q TESTBED /sys/firmware/acpi/tables/FACP 2> /dev/null; then
        echo emulator
        return
    fi
    software=no
    if [ -z "$(word pmv.options '')" ]; then
        ! grep -q '^flags.* hypervisor\( \|$\)' /proc/cpuinfo || software=yes
    else
        for each in "$bench/native/facts.txt" "$bench/native.txt"; do
            ! grep -q '^env: kind="nested"' "$each" 2> /dev/null || software=yes
        done
    fi
    if [ "$software" = yes ] || software_by_name; then echo nested; else echo metal; fi
}

turbo() {
    value=$(read_msr 0x1a0)
    [ -n "$value" ] || return
    # "Turbo Mode Disable"
    if [ $((value >> 38 & 1)) -ne 0 ]; then echo off; else echo on; fi
}

# Of this kernel. Under KVM the job says its guest's (jobs.sh).
apic_mode() {
    value=$(read_msr 0x1b)
    case $((${value:-0} >> 10 & 3)) in
        2) echo xAPIC ;;
        3) echo x2APIC ;;
    esac
}

# The model's name; of a hybrid machine, the PMU of the first processor, too, which measures.
cpu_name() {
    name=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
    for each in /sys/bus/event_source/devices/cpu_core /sys/bus/event_source/devices/cpu_atom; do
        case $(cat "$each/cpus" 2> /dev/null) in
            0 | 0[,-]*) name="$name, ${each##*/}" ;;
        esac
    done
    echo "$name"
}

# How many are online, and of several those that measure.
processors() {
    count=$(grep -c '^processor' /proc/cpuinfo)
    [ "$count" = 1 ] || count="$count, jobs on mask $(taskset -p $$ | sed 's/.*: //')"
    echo "$count"
}

# Vendor, version and date, in one line.
bios() {
    for each in bios_vendor bios_version bios_date; do
        cat "/sys/class/dmi/id/$each" 2> /dev/null
    done | tr '\n;' ' ,' | sed 's/ *$//'
}

# Each processor at its full frequency, where the kernel has a say in it.
set_governor() {
    for each in /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor; do
        [ ! -w "$each" ] || echo performance > "$each" 2> /dev/null
    done
}

governor() {
    cpufreq=/sys/devices/system/cpu/cpu0/cpufreq
    if [ ! -r "$cpufreq/scaling_governor" ]; then
        echo none
        return
    fi
    boost=''
    for each in intel_pstate/no_turbo cpufreq/boost; do
        file=/sys/devices/system/cpu/$each
        [ ! -r "$file" ] || boost="$boost, ${each#*/}=$(cat "$file")"
    done
    echo "$(cat "$cpufreq/scaling_governor") ($(cat "$cpufreq/scaling_driver")," \
        "$(cat "$cpufreq/scaling_min_freq") to $(cat "$cpufreq/scaling_max_freq") kHz$boost)"
}

print_facts() {
    fact kind "$(kind_of_machine)"
    fact column "$column_name"
    fact cpu "$(cpu_name)"
    fact kernel "$(uname -r)"
    fact date "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
    fact tick "$(value_of measured pmuvisor | tr ' ' '\n' | sed -n 's/^tick=//p')"
    fact mitigations "$(for each in $command_line; do
        case $each in
            mitigations=* | indirect_target_selection=* | spectre_bhi=*) echo "$each" ;;
        esac
    done | tr '\n' ' ' | sed 's/ $//')"
    fact microcode "$(sed -n 's/^microcode[^:]*: *//p' /proc/cpuinfo | head -n 1)"
    fact bios "$(bios)"
    fact apic "$(apic_mode)"
    fact processors "$(processors)"
    fact turbo "$(turbo)"
    fact governor "$(governor)"
    # The boot menu hands PMUvisor's options on, parted by slashes.
    [ -z "$(word pmv.options '')" ] || fact options "$(word pmv.options '' | tr / ' ')"
    fact frequency "$(dmesg | sed -n 's/.*tsc: Detected \(.*\) processor.*/\1/p' | head -n 1)"
    cat "$bench/build.txt" 2> /dev/null
}
