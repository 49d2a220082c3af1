# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
# processor.sh: what else the first processor did while a job ran: SMIs, which stop everything, its
# average frequency, and how much of the time it was not halted. MSRs by the kernel's driver; one
# that the processor lacks is left out. Sourced by auto.sh; sets only what it is asked to.
# SDM Vol. 4, "MSR_SMI_COUNT", "IA32_TIME_STAMP_COUNTER", "IA32_MPERF", "IA32_APERF".

msr_device=/dev/cpu/0/msr

write_msr() { # write_msr INDEX VALUE: fails where the processor, or what is below Linux, has it not
    octal=''
    byte=0
    while [ "$byte" -lt 8 ]; do
        octal="$octal\\$(printf '%03o' $(($2 >> (byte * 8) & 255)))"
        byte=$((byte + 1))
    done
    # shellcheck disable=SC2059 # the format is the bytes
    printf "$octal" | dd "of=$msr_device" bs=8 count=1 oflag=seek_bytes "seek=$(($1))" \
        conv=notrunc 2> /dev/null
}

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

# percent PART WHOLE: with one decimal; nothing without both.
percent() {
    [ -n "$1" ] && [ "${2:-0}" -gt 0 ] || return 0
    tenths=$(($1 * 1000 / $2))
    echo "$((tenths / 10)).$((tenths % 10))"
}

# counts_between BEFORE AFTER: NAME=VALUE of what is known, a line each.
counts_between() {
    smis=$(grown smis "$1" "$2") mperf=$(grown mperf "$1" "$2")
    for each in "smis=$smis" "aperf_per_mperf=$(percent "$(grown aperf "$1" "$2")" "$mperf")" \
        "mperf_per_tsc=$(percent "$mperf" "$(grown tsc "$1" "$2")")"; do
        [ -z "${each#*=}" ] || echo "$each"
    done
}

# processor_lines JOB BEFORE AFTER: as lines of results, of the job's experiment.
processor_lines() {
    # shellcheck disable=SC2154 # auto.sh sets column
    case $(table_of "$column") in
        ablation) item=$(item_of "$column" "$1" ablation) ;;
        config) item=$(item_of "$column" config "$1") ;;
        *) item=$1 ;;
    esac
    counts_between "$2" "$3" | while read -r each; do
        unit=percent
        [ "${each%=*}" != smis ] || unit=count
        echo "bench: experiment=machine item=$item metric=${each%=*} unit=$unit value=${each#*=}"
    done
}

# sample_line JOB NUMBER BEFORE AFTER: as one line in front of those of one repetition. A part has
# one job, whose repetitions have its name.
sample_line() {
    sampled=$1
    [ -z "$(variant_of "$column")" ] || sampled=$column
    # shellcheck disable=SC2154 # auto.sh sets took_cs
    seconds=$((took_cs / 100)).$(printf '%02d' $((took_cs % 100)))
    echo "sample: job=$sampled number=$2 seconds=$seconds" \
        "$(counts_between "$3" "$4" | tr '\n' ' ' | sed 's/ $//')" | sed 's/ $//'
}
