# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
# facts.sh: the environment of a column, as lines `env: KEY="VALUE"` (bench/README.md). Reads /proc,
# /sys and MSRs by processor.sh. Makes the machine one that can be compared, and puts back what a
# restart would not: turbo and the governor. Sourced by auto.sh.
# SDM Vol. 4, "IA32_MISC_ENABLE", "IA32_APIC_BASE". Linux, Documentation/admin-guide/pm/.
# shellcheck disable=SC2154 # auto.sh sets column, column_name, command_line, bench, start and place

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
        for each in "$bench"/*.native/facts.txt "$bench"/*.native.txt; do
            ! grep -q '^env: kind="nested"' "$each" 2> /dev/null || software=yes
        done
    fi
    if [ "$software" = yes ] || software_by_name; then echo nested; else echo metal; fi
}

misc_enable=0x1a0
turbo_disabled=38 # its bit "Turbo Mode Disable"
# Of EPT, as PMUvisor has them, and of KVM's guest memory when the launcher gets them.
large_pages="2 MiB and larger"
cpu_folder=/sys/devices/system/cpu

turbo() {
    value=$(read_msr $misc_enable)
    if [ "$(cat $cpu_folder/intel_pstate/no_turbo 2> /dev/null)" = 1 ] ||
        [ "$(cat $cpu_folder/cpufreq/boost 2> /dev/null)" = 0 ]; then
        echo off
    elif [ -n "$value" ]; then
        if [ $((value >> turbo_disabled & 1)) -ne 0 ]; then echo off; else echo on; fi
    fi
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

# set_file FILE VALUE: notes what it was, for put_back.
set_file() {
    [ -w "$1" ] || return 0
    was=$(cat "$1")
    [ "$was" != "$2" ] || return 0
    echo "$2" > "$1" 2> /dev/null && echo "$1 $was" >> /tmp/put_back
}

# Each processor at its full frequency without turbo, and its second thread off, where the kernel
# has a say in it. Without cpufreq the MSR is what there is.
set_machine() {
    : > /tmp/put_back
    for each in "$cpu_folder"/cpu[0-9]*/cpufreq/scaling_governor; do
        set_file "$each" performance
    done
    set_file $cpu_folder/smt/control off
    set_file $cpu_folder/intel_pstate/no_turbo 1
    set_file $cpu_folder/cpufreq/boost 0
    if [ "$(turbo)" = on ]; then
        was=$(read_msr $misc_enable)
        write_msr $misc_enable $((was | 1 << turbo_disabled)) &&
            echo "$misc_enable $was" >> /tmp/put_back
    fi
}

# A reset may leave the MSRs behind these files as they are.
put_back() {
    [ -e /tmp/put_back ] || return 0
    while read -r what was; do
        case $what in
            /*) echo "$was" > "$what" 2> /dev/null ;;
            *) write_msr "$what" "$was" ;;
        esac
    done < /tmp/put_back
    rm -f /tmp/put_back
}

smt() {
    if [ "$(cat $cpu_folder/smt/active 2> /dev/null)" = 1 ]; then echo on; else echo off; fi
}

# With idle=halt Linux has no driver of C-states: an idle processor executes HLT, which is C1.
cstates() {
    driver=$(cat $cpu_folder/cpuidle/current_driver 2> /dev/null)
    case ${driver:-none} in
        none) echo "C1 by HLT" ;;
        *) echo "$driver: $(cat $cpu_folder/cpu0/cpuidle/state*/name | paste -s -d ' ' -)" ;;
    esac
}

intremap() {
    if dmesg | grep -q 'DMAR-IR: Enabled IRQ remapping'; then echo on; else echo off; fi
}

fred() {
    if grep -q '^flags.* fred\( \|$\)' /proc/cpuinfo; then echo on; else echo off; fi
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

# Of the TSC. Linux names it after the processor's if it is another (arch/x86/kernel/tsc.c,
# determine_cpu_tsc_frequencies()).
frequency() {
    dmesg | sed -n -e 's/.*tsc: Detected \(.*\) processor.*/\1/p' \
        -e 's/.*tsc: Detected \(.*\) TSC.*/\1/p' | tail -n 1
}

# The release of a kernel file. Linux, Documentation/arch/x86/boot.rst, "kernel_version".
release_of() { # release_of FILE
    place_found=$(dd "if=$1" bs=1 skip=526 count=2 2> /dev/null | od -A n -t u2 | tr -d ' ')
    [ -n "$place_found" ] || return 0
    dd "if=$1" bs=1 skip=$((place_found + 512)) count=64 2> /dev/null | tr '\0' '\n' | head -n 1 |
        cut -d ' ' -f 1
}

# Of the measured Linux: under KVM the guest's own, where it is not this kernel's. What Linux has
# without the word is not said.
mitigations() {
    measured=$(word mitigations '')
    ! is_kvm || measured=$(word pmv.inner_mitigations "$measured")
    [ "${measured:-auto}" = auto ] || echo "mitigations=$measured"
    for each in $command_line; do
        case $each in indirect_target_selection=* | spectre_bhi=*) echo "$each" ;; esac
    done
}

# Of what is below the measured Linux.
root_mitigations() {
    if is_kvm; then
        word mitigations auto
    else
        word pmv.options '' | tr / '\n' | sed -n 's/^mitigations=//p'
    fi
}

ept_pages() {
    [ -z "$(word pmv.options '')" ] || echo "$large_pages"
}

# What perf of this kernel lacks, in a sentence; nothing if it knows the processor's model. (Linux,
# arch/x86/events/intel/core.c, intel_pmu_init(): the names without a model.)
perf_lacks() {
    pmu=$(cat /sys/devices/cpu/caps/pmu_name 2> /dev/null)
    case $pmu in
        generic_arch_*)
            echo "perf of this Linux does not know this processor's model ($pmu): it counts" \
                "architectural events alone"
            ;;
    esac
}

# Each key of [alike] (bench/measurements.ini) is here, or in what a job says of KVM (jobs.sh,
# kvm_facts), where the guest's values win.
print_facts() {
    fact kind "$(kind_of_machine)"
    fact column "$column_name"
    fact cpu "$(cpu_name)"
    if is_kvm; then fact kernel "$(release_of "$bench/vmlinuz")"; else fact kernel "$(uname -r)"; fi
    fact date "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
    fact tick "$(value_of measured pmuvisor | tr ' ' '\n' | sed -n 's/^tick=//p')"
    fact mitigations "$(mitigations | tr '\n' ' ' | sed 's/ $//')"
    fact root_mitigations "$(root_mitigations)"
    fact microcode "$(sed -n 's/^microcode[^:]*: *//p' /proc/cpuinfo | head -n 1)"
    fact bios "$(bios)"
    fact apic "$(apic_mode)"
    fact processors "$(processors)"
    fact turbo "$(turbo)"
    fact smt "$(smt)"
    fact cstates "$(cstates)"
    fact governor "$(governor)"
    fact intremap "$(intremap)"
    fact fred "$(fred)"
    fact ept_pages "$(ept_pages)"
    # The boot menu hands PMUvisor's options on, parted by slashes.
    [ -z "$(word pmv.options '')" ] || fact options "$(word pmv.options '' | tr / ' ')"
    fact frequency "$(frequency)"
    fact round "${start%%.*}"
    fact position "$place"
    perf_lacks
    cat "$bench/build.txt" 2> /dev/null
}
