#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# rr.sh: one case: records a program with rr and replays it, and says whether both printed the same. Run
# by busybox sh as the guest's root, with the case's name in CASE. Usage:
#   rr.sh [OPTION OF rr record ...] -- PROGRAM [WORD ...]
#   rr.sh --keep ...      the same; the recording is handed over as rr-CASE.tar.gz, its output with it
#   rr.sh --replay CASE   replays what lies in /rr/in, where another boot recorded it
# What a program prints is printed, then "rr: recorded=STATUS replayed=STATUS same=yes|no".
trace=/tmp/rr-$CASE
kept=/tmp/kept

record() { # record [OPTION...] -- PROGRAM [WORD...]
    recorded=0
    # Linux decides by the terminal whether a program's output is of lines; neither has one.
    rr record -o "$trace" "$@" > /tmp/recorded 2> /tmp/record.log || recorded=$?
    cat /tmp/recorded
    grep -v '^rr: Saving execution to trace directory' /tmp/record.log
}

replay() {
    replayed=0
    same=no
    rr replay -a "$trace" > /tmp/replayed 2> /tmp/replay.log || replayed=$?
    if cmp -s /tmp/recorded /tmp/replayed; then
        same=yes
    else
        diff /tmp/recorded /tmp/replayed | head -n 20
    fi
    # The recorded program's own errors are replayed, too.
    head -n 40 /tmp/replay.log
    echo "rr: recorded=$recorded replayed=$replayed same=$same events=$(rr dump -s "$trace" 2> /dev/null |
        wc -l) lines=$(wc -l < /tmp/recorded)"
    [ $same = yes ] && [ "$replayed" = "$recorded" ]
}

hand_over() {
    rr pack "$trace" > /tmp/pack.log 2>&1 || cat /tmp/pack.log
    mkdir -p $kept
    cp -r "$trace" $kept/trace
    cp /tmp/recorded $kept/recorded
    echo "$recorded" > $kept/status
    tar -C $kept -czf "/tmp/rr-$CASE.tar.gz" .
    /tool/leave "rr-$CASE.tar.gz" "/tmp/rr-$CASE.tar.gz"
    rm -r $kept "/tmp/rr-$CASE.tar.gz"
}

case $1 in
    --replay)
        mkdir -p $kept
        tar -C $kept -xzf "/rr/in/rr-$2.tar.gz" || exit 1
        trace=$kept/trace
        cp $kept/recorded /tmp/recorded
        recorded=$(cat $kept/status)
        cat /tmp/recorded
        replay
        status=$?
        rm -r $kept
        exit $status
        ;;
    --keep)
        shift
        record "$@"
        hand_over
        replay
        ;;
    *)
        record "$@"
        replay
        ;;
esac
status=$?
rm -rf "$trace"
exit $status
