#!/bin/busybox sh
# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=dash
# PID 1 of a measuring boot on a bare machine: runs the jobs of one column of the tables, one after
# another, keeps each one's output on the EFI system partition as soon as it is there, and reboots.
# Touches EFI/pmuvisor/bench on that partition alone, and mounts it writable only to write.
#
# Command line: pmv.column=NAME, pmv.id= the contents of EFI/pmuvisor/bench/id; for tests
# pmv.jobs=A,B,... (these jobs alone) and what the jobs take.
#
# In EFI/pmuvisor/bench:  NAME/JOB.txt  what a job printed, whole when its last line has its sum
#                         NAME/JOB.1,.2 the job was begun once, twice; in it why it has no result
#                         NAME/facts.txt the column's environment
#                         NAME.txt      the column's results, put together from the jobs'
#                         NAME.ok       NAME.txt is whole; the boot menu looks for this
#                         NAME.env      the boot menu's count of starts, set back here
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
    [ "${last%=*}" = "check: md5" ] && [ "$(sed '$d' "$1" | sum_of)" = "${last#*=}" ]
}

# keep NAME: what is on stdin is on the medium as that file when this returns true.
keep() {
    cat > /tmp/keep
    echo "check: md5=$(sum_of < /tmp/keep)" >> /tmp/keep
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

# The boot menu may start this column anew: it came this far. The block's sectors are overwritten in
# place; a torn one is a column that the menu leaves out.
reset_count() {
    {
        printf '# GRUB Environment Block\ntries=0\nwhy=\n'
        head -c "$env_block_bytes" /dev/zero | tr '\0' '#'
    } | head -c "$env_block_bytes" > /tmp/env
    writable && dd if=/tmp/env "of=$bench/$column.env" conv=notrunc 2> /dev/null
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
    seconds=$(job_seconds "$1")
    started=$(seconds_up)
    processor_counts > /tmp/before
    # shellcheck disable=SC2046 # a command of several words
    timeout -s KILL "$seconds" $(job_command "$1") > /tmp/output 2>&1
    status=$?
    processor_counts > /tmp/after
    if [ "$status" -eq 0 ]; then
        why=$(complaint "$1" /tmp/output)
        [ -z "$why" ] || status=1
    elif [ $(($(seconds_up) - started)) -ge "$seconds" ]; then
        why="it did not end in $seconds s"
    else
        why="it ended with status $status"
    fi
    [ "$status" -eq 0 ] || echo "auto: job=$1 status=$status why=\"$why\"" >> /tmp/output
}

seconds_up() {
    cut -d . -f 1 /proc/uptime
}

# Why attempt N left nothing: what was noted then, and where nothing was, nobody was there to.
why_of() { # why_of JOB N
    noted=$(head -n 1 "$bench/$column/$1.$2" | tr -d '"')
    echo "${noted:-the machine went down in it}"
}

# One job, unless it is done. A job that took the machine down twice, or was killed twice, is given
# up; any other end is its result, whatever its status.
do_job() {
    if whole "$bench/$column/$1.txt"; then
        return
    fi
    attempt=1
    [ ! -e "$bench/$column/$1.1" ] || attempt=2
    if [ -e "$bench/$column/$1.2" ]; then
        why="begun twice: first $(why_of "$1" 1), then $(why_of "$1" 2)"
        say "column=$column_name job=$1 given up, $why"
        job_left_out "$1" "$why" | keep "$column/$1.txt" || restart "cannot write $column/$1.txt"
        return
    fi
    touch_file "$column/$1.$attempt" || restart "cannot write to the EFI system partition"
    reset_count
    say "column=$column_name job=$1 attempt=$attempt"
    run_job "$1"
    if [ "$status" -ne 0 ]; then
        tail -n 3 /tmp/output
    fi
    if [ "$status" -ge 128 ]; then
        note "$column/$1.$attempt" "$why"
        restart "column=$column_name job=$1 status=$status: $why; once more after a restart"
    fi
    job_result "$1" /tmp/output "$why" | keep "$column/$1.txt" ||
        restart "cannot write $column/$1.txt"
    say "column=$column_name job=$1 status=$status kept"
}

put_together() {
    sed '$d' "$bench/$column/facts.txt"
    for job in $jobs; do
        sed '$d' "$bench/$column/$job.txt"
    done
    echo "end: column=$column_name status=0"
}

begin
restart_if_hung
column=$(word pmv.column '')
column_name=$(column_of "$column")
[ -n "$column_name" ] || restart "pmv.column=$column: wanted a name of bench/measurements.ini"
jobs=$(jobs_of_column "$column")
find_esp || restart "no EFI system partition with EFI/pmuvisor/bench found in $esp_seconds s"
if [ ! -e "$bench/$column.ok" ]; then
    note_limits
    # With more processors than one, all of them but the first are idle: a job's counts and times
    # are of one, and what it starts inherits this.
    taskset -p 1 $$ > /dev/null
    prepare_jobs
    set_governor
    [ -d "$bench/$column" ] || { writable && mkdir -p "$bench/$column" && read_only; }
    say "column=$column_name governor=$(governor)"
    whole "$bench/$column/facts.txt" || print_facts | keep "$column/facts.txt" ||
        restart "cannot write $column/facts.txt"
    for job in $jobs; do
        do_job "$job"
    done
    put_together | keep "$column.txt" || restart "cannot write $column.txt"
    touch_file "$column.ok" || restart "cannot write $column.ok"
fi
# A log with the markers can be imported as it is; there a column is between one pair of them.
marker="column=$column_name"
[ -z "$(variant_of "$column")" ] || marker="ablation=$(variant_of "$column")"
echo "BENCH BEGIN $marker"
cat "$bench/$column.txt"
echo "BENCH END $marker"
restart "$marker done"
