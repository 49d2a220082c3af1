#!/bin/busybox sh
# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=dash
# PID 1 of a measuring boot on a bare machine: runs the jobs of one column of the tables, one after
# another, keeps each one's output on the EFI system partition as soon as it is there, and reboots.
# Touches EFI/pmuvisor/bench on that partition alone, and mounts it writable only to write.
#
# Command line: pmv.start=ROUND.COLUMN, pmv.column=COLUMN, pmv.id= the contents of
# EFI/pmuvisor/bench/id; pmv.plan=NAME of measurements.ini, none: this start alone, with each job
# once; pmv.minutes=, pmv.columns=A,B,... as bench.cfg has them; for tests pmv.jobs=A,B,... (these
# jobs alone) and what the jobs take.
#
# In EFI/pmuvisor/bench, of a start S:
#                         S/JOB.txt     what a job printed, whole when its last line has its sum
#                         S/JOB.1,.2    the job was begun once, twice; in it why it has no result
#                         S/facts.txt   the column's environment
#                         S.txt         the start's results, put together from the jobs'
#                         S.ok          S.txt is whole; the boot menu looks for this
#                         S.env         the boot menu's count of boots, set back here
#                         plan.cfg      the starts in their order, clock.txt and its copy clock2.txt
#                         the time that is used (plan.sh)
# A file is never renamed: on FAT that is two writes, and a power cut between them leaves two names
# for one file. A sum in the last line tells whole from torn instead.
set -u

PATH=/bin:/sbin:/usr/bin:/usr/sbin
export PATH
esp=/esp
bench=$esp/EFI/pmuvisor/bench
esp_seconds=30
boot_seconds=14400
env_block_bytes=1024
# Of a job in a start: a partition may be small.
repetitions=20
command_line=''

say() {
    echo "auto: $*"
    # The screen, where the console is the serial line.
    [ ! -c /dev/tty0 ] || echo "auto: $*" > /dev/tty0 2> /dev/null
}

word() { # word KEY DEFAULT: the last on the kernel command line
    found=$2
    for each in $command_line; do
        case $each in "$1"=*) found=${each#*=} ;; esac
    done
    echo "$found"
}

restart() {
    say "$*"
    put_back
    # Firmware's time is what passes until the next kernel.
    [ -z "${used:-}" ] || write_clock 1
    sync
    umount "$esp" 2> /dev/null
    # The last characters are still in the UART.
    sleep 1
    reboot -f
    echo b > /proc/sysrq-trigger
    sleep 60
}

begin() {
    mkdir -p /proc /sys /dev /tmp /esp
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    mount -t devtmpfs devtmpfs /dev 2> /dev/null
    exec < /dev/console > /dev/console 2>&1
    # No message of the kernel's between the lines of results.
    dmesg -n 1
    command_line=$(cat /proc/cmdline)
    # The drivers of this kernel for disks, each after those that it needs.
    while read -r module; do
        insmod "/lib/modules/$module.ko" 2> /dev/null
    done < /lib/modules/storage.order
}

# Firmware starts this stick or disk once more, whatever its boot order, because the choice in a
# firmware's menu holds for one start alone. UEFI, "Globally Defined Variables".
boot_here_again() {
    variables=/sys/firmware/efi/efivars global=8be4df61-93ca-11d2-aa0d-00e098032b8c
    insmod /lib/modules/efivarfs.ko 2> /dev/null
    mount -t efivarfs efivarfs $variables 2> /dev/null
    [ -e "$variables/BootCurrent-$global" ] || return 0
    # The attributes: non-volatile, for boot services and for Linux. A file is one write.
    {
        printf '\007\000\000\000'
        tail -c 2 "$variables/BootCurrent-$global"
    } > /tmp/next
    dd bs=6 if=/tmp/next "of=$variables/BootNext-$global" 2> /dev/null ||
        say "firmware does not take BootNext: put this stick or disk first in the boot order"
}

# A machine that hangs in user space is started again; in the kernel, panic=10 does that.
restart_if_hung() {
    (
        sleep "$boot_seconds"
        echo b > /proc/sysrq-trigger
    ) &
}

# ---- the EFI system partition ----

find_esp() {
    wanted=$(word pmv.id '')
    [ -n "$wanted" ] || restart "no pmv.id= on the command line; start this from the boot menu"
    tries=0
    while [ "$tries" -lt "$esp_seconds" ]; do
        # shellcheck disable=SC2013 # words
        for device in $(awk 'NR > 2 { print $4 }' /proc/partitions); do
            # sync: FAT's own tables reach the disk before what refers to them.
            mount -t vfat -o ro,sync,dirsync,shortname=winnt,errors=remount-ro \
                "/dev/$device" "$esp" 2> /dev/null || continue
            if [ "$(cat "$bench/id" 2> /dev/null)" = "$wanted" ]; then
                say "results go to /dev/$device"
                return 0
            fi
            umount "$esp"
        done
        tries=$((tries + 1))
        sleep 1
    done
    return 1
}

writable() {
    mount -o "remount,rw,sync,dirsync,shortname=winnt,errors=remount-ro" "$esp"
}

read_only() {
    sync
    mount -o "remount,ro" "$esp"
}

sum_of() {
    md5sum | cut -d ' ' -f 1
}

# whole FILE: it is there, and its last line has the sum of the lines before.
whole() {
    [ -s "$1" ] || return 1
    last=$(tail -n 1 "$1")
    last=${last#"# "}
    [ "${last%=*}" = "check: md5" ] && [ "$(sed '$d' "$1" | sum_of)" = "${last#*=}" ]
}

# keep NAME: what is on stdin is on the medium as that file when this returns true. *.cfg is
# GRUB's.
keep() {
    cat > /tmp/keep
    case $1 in *.cfg) mark='# check' ;; *) mark=check ;; esac
    echo "$mark: md5=$(sum_of < /tmp/keep)" >> /tmp/keep
    writable && cat /tmp/keep > "$bench/$1"
    read_only
    # Not what memory has of it, but what the disk has.
    echo 3 > /proc/sys/vm/drop_caches
    whole "$bench/$1"
}

# Where no sum is needed: any part of the text will do.
note() { # note NAME TEXT
    writable && echo "$2" > "$bench/$1"
    read_only
}

touch_file() {
    writable && : > "$bench/$1"
    read_only
    [ -e "$bench/$1" ]
}

empty_block() {
    {
        printf '# GRUB Environment Block\ntries=0\nwhy=\n'
        head -c "$env_block_bytes" /dev/zero | tr '\0' '#'
    } | head -c "$env_block_bytes"
}

# The boot menu may start this column anew: it came this far. The block's sectors are overwritten in
# place; a torn one is a column that the menu leaves out.
reset_count() {
    empty_block > /tmp/env
    writable && dd if=/tmp/env "of=$bench/$start.env" conv=notrunc 2> /dev/null
    read_only
}

# ---- one column ----

# shellcheck disable=SC2034 # measurements.sh reads it
measurements_top=/lib/auto
# shellcheck source=bench/measurements.sh
. /lib/auto/measurements.sh
# shellcheck source=metal/auto/jobs.sh
. /lib/auto/jobs.sh
# shellcheck source=metal/auto/facts.sh
. /lib/auto/facts.sh
# shellcheck source=metal/auto/processor.sh
. /lib/auto/processor.sh
# shellcheck source=metal/auto/plan.sh
. /lib/auto/plan.sh

# perf's limits and the NMI watchdog, as this kernel has them at its start: some jobs change them,
# and each job is to find what it would find alone.
limits="perf_cpu_time_max_percent perf_event_max_sample_rate nmi_watchdog"

note_limits() {
    for limit in $limits; do
        cat "/proc/sys/kernel/$limit" > "/tmp/$limit" 2> /dev/null
    done
}

# In this order: the rate cannot be set while the percentage is 0.
restore_limits() {
    for limit in $limits; do
        cat "/tmp/$limit" > "/proc/sys/kernel/$limit" 2> /dev/null
    done
}

# run_job JOB: its output is in /tmp/output; why is why that is no result, empty where it is one.
run_job() {
    restore_limits
    limit=$(job_limit "$1")
    started=$(centis_up)
    processor_counts > /tmp/before
    # shellcheck disable=SC2046 # a command of several words
    timeout -s KILL "$limit" $(job_command "$1") > /tmp/output 2>&1
    status=$?
    processor_counts > /tmp/after
    took_cs=$(($(centis_up) - started))
    if [ "$status" -eq 0 ]; then
        why=$(complaint "$1" /tmp/output)
        [ -z "$why" ] || status=1
    elif [ $((took_cs / 100)) -ge "$limit" ]; then
        why="it did not end in $limit s"
    else
        why="it ended with status $status"
    fi
    [ "$status" -eq 0 ] || echo "auto: job=$1 status=$status why=\"$why\"" >> /tmp/output
}

# What one run may take: in a plan of minutes not all that others have.
job_limit() {
    limit_found=$(job_seconds "$1")
    planned_limit=$((share * $(share_of "$1") * 3 / 1000 + cut_seconds * 2))
    if [ "$share" -gt 0 ] && [ "$planned_limit" -lt "$limit_found" ]; then
        limit_found=$planned_limit
    fi
    echo "$limit_found"
}

seconds_up() {
    cut -d . -f 1 /proc/uptime
}

centis_up() {
    cut -d ' ' -f 1 /proc/uptime | tr -d .
}

# The program once more, and again, while a run like the last one ends within the job's share of the
# time, and is not one of very many. What one job leaves or takes too much the next one has more or
# less. The results are in /tmp/result.
repeat_job() { # repeat_job JOB
    budget=$((share * $(share_of "$1") / 10 - debt))
    job_began=$(centis_up) number=0
    while true; do
        number=$((number + 1))
        run_job "$1"
        [ "$status" -lt 128 ] || return 0
        job_result "$1" /tmp/output "$why" "$number" >> /tmp/result
        spent=$(($(centis_up) - job_began))
        if [ "$status" -ne 0 ] || [ "$number" -ge "$repetitions" ] ||
            [ $((spent + took_cs)) -gt "$budget" ]; then
            break
        fi
    done
    debt=$((spent - budget))
}

# Why attempt N left nothing: what was noted then, and where nothing was, nobody was there to.
why_of() { # why_of JOB N
    noted=$(head -n 1 "$bench/$start/$1.$2" | tr -d '"')
    echo "${noted:-the machine went down in it}"
}

# Why the column's job was given up in another round; nothing where it was not, or where nothing but
# cuts of the power may have ended it.
given_up() { # given_up JOB
    cat "$bench"/[0-9]*."$column/$1.txt" 2> /dev/null |
        sed -n 's/^bench: .* skip="\(begun twice: .* it \(did not\|ended\) .*\)"$/\1/p' | head -n 1
}

# One job, unless it is done. A job that took the machine down twice, or was killed twice, is given
# up, in later rounds, too; any other end is its result, whatever its status.
do_job() { # do_job JOB NUMBER OF
    if whole "$bench/$start/$1.txt"; then
        return
    fi
    attempt=1
    [ ! -e "$bench/$start/$1.1" ] || attempt=2
    why=$(given_up "$1")
    [ ! -e "$bench/$start/$1.2" ] ||
        why="begun twice: first $(why_of "$1" 1), then $(why_of "$1" 2)"
    if [ -n "$why" ]; then
        say "start=$start job=$1 given up, $why"
        job_left_out "$1" "$why" | keep "$start/$1.txt" || restart "cannot write $start/$1.txt"
        return
    fi
    touch_file "$start/$1.$attempt" || restart "cannot write to the EFI system partition"
    reset_count
    progress "$1" "$2" "$3"
    say "start=$start job=$1 attempt=$attempt"
    if [ "$share" -gt 0 ]; then
        : > /tmp/result
        repeat_job "$1"
    else
        run_job "$1"
        job_result "$1" /tmp/output "$why" > /tmp/result
    fi
    if [ "$status" -ne 0 ]; then
        tail -n 3 /tmp/output
    fi
    if [ "$status" -ge 128 ]; then
        note "$start/$1.$attempt" "$why"
        restart "start=$start job=$1 status=$status: $why; once more after a restart"
    fi
    keep "$start/$1.txt" < /tmp/result || restart "cannot write $start/$1.txt"
    say "start=$start job=$1 status=$status kept"
}

put_together() {
    sed '$d' "$bench/$start/facts.txt"
    for job in $jobs; do
        sed '$d' "$bench/$start/$job.txt"
    done
    echo "end: column=$column_name status=0"
}

begin
restart_if_hung
column=$(word pmv.column '')
start=$(word pmv.start "1.$column")
plan=$(word pmv.plan all)
column_name=$(column_of "$column")
[ -n "$column_name" ] || restart "pmv.column=$column: wanted a name of bench/measurements.ini"
[ -n "$(value_of plans "$plan")" ] ||
    restart "pmv.plan=$plan: wanted one of $(plan_names | tr '\n' ' ')"
jobs=$(jobs_of_column "$column")
find_esp || restart "no EFI system partition with EFI/pmuvisor/bench found in $esp_seconds s"
boot_here_again
read_clock
follow_plan
if [ ! -e "$bench/$start.ok" ]; then
    note_limits
    # With more processors than one, all of them but the first are idle: a job's counts and times
    # are of one, and what it starts inherits this.
    taskset -p 1 $$ > /dev/null
    prepare_jobs
    set_machine
    [ -d "$bench/$start" ] || { writable && mkdir -p "$bench/$start" && read_only; }
    start_shares=$(shares_of_column "$column")
    write_clock 0
    say "start=$start governor=$(governor)"
    lack=$(perf_lacks)
    [ -z "$lack" ] || say "$lack"
    whole "$bench/$start/facts.txt" || print_facts | keep "$start/facts.txt" ||
        restart "cannot write $start/facts.txt"
    job_number=0 job_count=$(echo "$jobs" | wc -l) debt=0
    for job in $jobs; do
        job_number=$((job_number + 1))
        do_job "$job" $job_number "$job_count"
    done
    put_together | keep "$start.txt" || restart "cannot write $start.txt"
    touch_file "$start.ok" || restart "cannot write $start.ok"
fi
# A log with the markers can be imported as it is; there a column is between one pair of them.
marker="column=$column_name"
[ "$column" = "$column_name" ] || marker="part=$column"
echo "BENCH BEGIN $marker"
cat "$bench/$start.txt"
echo "BENCH END $marker"
[ "$seconds_planned" -eq 0 ] ||
    say "$(minutes_of "$(seconds_used)") of $(minutes_of "$seconds_planned") minutes are used"
restart "start=$start done"
