#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# rr.sh: one case: records a program with rr and replays it, and says whether both printed the same.
# Run by busybox sh as the guest's root, with the case's name in CASE.
# Usage: rr.sh [OPTION OF rr record ...] -- PROGRAM [WORD ...]
# With the word pmv.rr=leave of the kernel's command line the recording is left with the emulator as
# rr-CASE.tar; with pmv.rr=replay nothing is recorded: what is replayed lies in /rr/in, where
# another boot has recorded it. What a program prints is printed, then "rr: recorded=STATUS
# replayed=STATUS same=yes|no".
job=rr
# shellcheck source=programs/workloads/common.sh
. /workloads/common.sh
# All files are in memory here, which rr takes for files that come and go, and would compress each
# library into each recording.
export RR_TRUST_TEMP_FILES=1
trace=/tmp/rr-$CASE
kept=/tmp/kept
seconds=5 # of Linux's, each many instructions in the emulator: what diverges may not end

record() { # record [OPTION...] -- PROGRAM [WORD...]
    recorded=0
    # Linux decides by the terminal whether a program's output is of lines; neither has one.
    timeout -s KILL $seconds rr record -o "$trace" "$@" > /tmp/recorded 2> /tmp/record.log ||
        recorded=$?
    cat /tmp/recorded
    grep -v '^rr: Saving execution to trace directory' /tmp/record.log
}

replay() {
    replayed=0
    same=no
    timeout -s KILL $seconds rr replay -a "$trace" > /tmp/replayed 2> /tmp/replay.log || replayed=$?
    if cmp -s /tmp/recorded /tmp/replayed; then
        same=yes
    else
        diff /tmp/recorded /tmp/replayed | head -n 20
    fi
    # The recorded program's own errors are replayed, too.
    head -n 40 /tmp/replay.log
    echo "rr: recorded=$recorded replayed=$replayed same=$same lines=$(wc -l < /tmp/recorded)"
    [ $same = yes ] && [ "$replayed" = "$recorded" ]
}

hand_over() {
    rr pack "$trace" > /tmp/pack.log 2>&1 || cat /tmp/pack.log
    mkdir -p $kept
    cp -r "$trace" $kept/trace
    cp /tmp/recorded $kept/recorded
    echo "$recorded" > $kept/status
    tar -C $kept -cf "/tmp/rr-$CASE.tar" .
    /tool/leave "rr-$CASE.tar" "/tmp/rr-$CASE.tar"
    rm -r $kept "/tmp/rr-$CASE.tar"
}

how=$(word pmv.rr record)
if [ "$how" = replay ]; then
    mkdir -p $kept
    tar -C $kept -xf "/rr/in/rr-$CASE.tar" || exit 1
    trace=$kept/trace
    cp $kept/recorded /tmp/recorded
    recorded=$(cat $kept/status)
    cat /tmp/recorded
else
    record "$@"
    [ "$how" != leave ] || hand_over
fi
replay
status=$?
rm -rf "$trace" $kept
exit $status
