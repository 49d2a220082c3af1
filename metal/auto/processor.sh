# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
# processor.sh: what else the first processor did while a job ran: SMIs, which stop everything, its
# average frequency, and how much of the time it was not halted. MSRs by the kernel's driver; one
# that the processor lacks is left out. Sourced by auto.sh; sets nothing.
# SDM Vol. 4, "MSR_SMI_COUNT", "IA32_TIME_STAMP_COUNTER", "IA32_MPERF", "IA32_APERF".

msr_device=/dev/cpu/0/msr

read_msr() { # read_msr INDEX: in decimal; nothing where it cannot be read
    [ -e "$msr_device" ] || insmod /lib/modules/msr.ko 2> /dev/null
    dd "if=$msr_device" bs=8 count=1 iflag=skip_bytes "skip=$(($1))" 2> /dev/null |
        od -A n -t d8 | tr -d ' '
}

processor_counts() {
    for each in smis=0x34 tsc=0x10 mperf=0xe7 aperf=0xe8; do
        echo "${each%=*}=$(read_msr "${each#*=}")"
    done
}

# grown NAME BEFORE AFTER: by how much; nothing where it is not known.
grown() {
    from=$(sed -n "s/^$1=//p" "$2") to=$(sed -n "s/^$1=//p" "$3")
    [ -z "$from" ] || [ -z "$to" ] || echo $((to - from))
}

# percent_line ITEM METRIC PART WHOLE: with one decimal; nothing without both.
percent_line() {
    [ -n "$3" ] && [ "${4:-0}" -gt 0 ] || return 0
    tenths=$(($3 * 1000 / $4))
    echo "bench: experiment=machine item=$1 metric=$2 unit=percent" \
        "value=$((tenths / 10)).$((tenths % 10))"
}

# processor_lines JOB BEFORE AFTER: as lines of results, of the job's experiment.
processor_lines() {
    item=$(experiment_of "$1")
    # shellcheck disable=SC2154 # auto.sh sets column
    [ -z "$(variant_of "$column")" ] || item=$item@$(variant_of "$column")
    smis=$(grown smis "$2" "$3")
    [ -z "$smis" ] || echo "bench: experiment=machine item=$item metric=smis unit=count value=$smis"
    mperf=$(grown mperf "$2" "$3")
    percent_line "$item" aperf_per_mperf "$(grown aperf "$2" "$3")" "$mperf"
    percent_line "$item" mperf_per_tsc "$mperf" "$(grown tsc "$2" "$3")"
}
