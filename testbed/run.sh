#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Runs a disk image in the emulator: Bochs with OVMF, the PMU model and the ledger. The guest's COM1
# is on stdout. Exit status: 0 the guest powered itself off, 3 it reset the machine, 5 and 6 the
# ends of --limit and --until, 124 the time is over, another with one line on stderr. Touches the
# image, the files named on the command line, and a temporary folder of its own. README.md describes
# knobs and ledger.
set -euo pipefail

usage="usage: testbed/run.sh --disk IMG [--ledger FILE] [--serial FILE] [--timeout SECONDS]
    [--limit MILLIONS] [--until TEXT [--after MILLIONS]]
    [--cpus N] [--memory MIB] [--knobs FILE] [--model NAME] [--panic fatal|report]
    [--firmware FILE] [--words TEXT]
    [--serve SOCKET [--idle SECONDS] [--at init | --own FIRST+COUNT[+PEEK]] | --from SOCKET]
    (a run --from a server at init needs no --disk)"

ips=50000000
# Instructions that a processor may execute before the next one's turn, and what a halted one counts
# for: with more of them the clock runs ahead of the others' work, with less each trace is shorter.
quantum=16
kill_after=10
# Linux's own limit of a command line on x86, and the room that the guest's init has.
words_max=2047
million=000000
# Seconds between two looks at a server's socket.
look_every=5
# What the clock says at power-on, always: a run repeats exactly. 2024-01-01 00:00:00.
power_on=1704067200
export TZ=UTC0

die() {
    echo "testbed/run.sh: $*" >&2
    exit 2
}

disk='' ledger='' serial='' timeout=3600 limit=0 until='' after=10 serve='' own='' from='' at=''
idle='' words=''
cpus=1 memory=512 knobs='' model=corei7_skylake_x panic=fatal
firmware=${FIRMWARE:-/usr/share/ovmf/OVMF.fd}
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help)
            echo "$usage"
            exit 0
            ;;
        --disk | --ledger | --serial | --timeout | --limit | --until | --after | --cpus | \
            --memory | --knobs | --model | --panic | --firmware | --serve | --idle | --own | \
            --at | --from | --words)
            [ $# -ge 2 ] || die "$1: no value given (see --help)"
            [[ $1 != --@(cpus|memory|model|panic|firmware) ]] || machine=$1
            printf -v "${1#--}" '%s' "$2"
            shift 2
            ;;
        *) die "unknown argument '$1' (see --help)" ;;
    esac
done
[ -z "$from" ] || [ -z "${machine:-}" ] || die "--from: $machine is the server's"
sectors='^[0-9]{1,12}\+[1-9][0-9]{0,11}(\+[0-9]{1,3})?$'
[ -z "$own" ] || { [ -n "$serve" ] && [[ $own =~ $sectors ]]; } ||
    die "--own: found '$own', wanted FIRST+COUNT or FIRST+COUNT+PEEK, sectors, with --serve"
[ -z "$at" ] || { [ "$at" = init ] && [ -n "$serve" ] && [ -z "$own" ]; } ||
    die "--at: found '$at', wanted init, with --serve and without --own"
[ -z "$idle" ] || { [ -n "$serve" ] && [[ $idle =~ ^[1-9][0-9]*$ ]]; } ||
    die "--idle: found '$idle', wanted seconds, with --serve"
[ -z "$words" ] || [ -z "$serve" ] || die "--words: they are the run's, found --serve"
[[ $words != *[^[:print:]]* ]] || die "--words: wanted one line of printable characters"
[ ${#words} -le "$words_max" ] ||
    die "--words: ${#words} characters, at most $words_max have room in the guest"
[ -n "$disk" ] || [ -n "$from" ] || die "no --disk given (see --help)"
[ -z "$disk" ] || [ -f "$disk" ] || die "--disk: '$disk' is not a file"
[[ $timeout =~ ^[1-9][0-9]*$ ]] || die "--timeout: found '$timeout', wanted seconds"
[[ $limit =~ ^[0-9]{1,9}$ ]] || die "--limit: found '$limit', wanted millions of instructions"
[[ $after =~ ^[0-9]{1,9}$ ]] || die "--after: found '$after', wanted millions of instructions"
in_range() {
    [[ $1 =~ ^[1-9][0-9]*$ ]] && [ "${#1}" -le 6 ] && [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]
}
in_range "$cpus" 1 64 || die "--cpus: found '$cpus', wanted 1 to 64"
in_range "$memory" 64 2048 || die "--memory: found '$memory', wanted 64 to 2048 MiB"
[[ $model =~ ^[a-z0-9_]+$ ]] || die "--model: found '$model', wanted a processor model of Bochs"
# Errors are what a guest did wrong; one that does wrong all the time would fill the log with them.
case $panic in
    fatal) error=report ;;
    report) error=ignore ;;
    *) die "--panic: found '$panic', wanted fatal or report" ;;
esac
[ -z "$knobs" ] || [ -r "$knobs" ] || die "--knobs: cannot read '$knobs'"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
vga=/usr/share/seabios/vgabios-stdvga.bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Without its tables, which the disk's menu loads, the machine seems to have one processor.
if [ "$cpus" -gt 1 ] && [ -n "$disk" ]; then
    menu=$(MTOOLS_SKIP_CHECK=1 mtype -i "$disk" ::/EFI/pmuvisor/grub.cfg 2> /dev/null) || true
    [ -z "$menu" ] || grep -q '^acpi ' <<< "$menu" ||
        die "--cpus $cpus: '$disk' has no ACPI tables that list them; make it with" \
            "testbed/disk.sh --cpus $cpus"
fi

# Bochs leaves its lock file behind when it is ended; the lock that counts is this one. A server has
# an empty disk of the same size, or where its runs share a part of the disk, a copy. A run without
# a disk gets one in the folder of its own.
if [ -n "$serve" ]; then
    if [ -n "$own$at" ]; then
        cp --sparse=always "$disk" "$work/disk"
        # What the runs' disks are compared with, while the machine writes to its own.
        [ -z "$at" ] || cp --sparse=always "$disk" "$work/unused"
    else
        truncate --size "$(stat --dereference --format=%s "$disk")" "$work/disk"
    fi
    disk=$work/disk
fi
if [ -n "$disk" ]; then
    exec 8< "$disk"
    flock --nonblock 8 || die "--disk: '$disk' is in use by another run"
else
    disk=$work/disk
fi
rm -f "$disk.lock"

# The machine, as Bochs is told of it.
configure() {
    local exclude=''
    [ -r "$firmware" ] || die "$firmware not found: install the packages that testbed/deps.sh lists"
    [ -r "$vga" ] || die "$vga not found: install the packages that testbed/deps.sh lists"
    bochs=$("$here/build.sh")/bochs
    # Not by a pipe: grep leaves at its first match, and Bochs' end by SIGPIPE would count.
    # A bad knob is not for this call to find.
    grep -qxF "$model" <(env -u TB_KNOBS "$bochs" -help cpu 2>&1 < /dev/null) ||
        die "--model: Bochs has no processor model '$model' (its list: $bochs -help cpu)"

    # In Bochs each MONITOR ends the MWAIT of every processor: idle ones wake each other for ever.
    [ "$cpus" -eq 1 ] || { [ -n "$knobs" ] && grep -q '^ *mwait_wake ' "$knobs"; } ||
        exclude=mwait
    # Shown where the comparisons of CET are; all other figures are those of processors without.
    [ "$model" = sapphire_rapids ] || exclude+=" pku pks cet"
    if [ -n "$knobs" ]; then
        # The one knob that Bochs itself has to know before it makes the processors.
        exclude+=$(awk '{ sub(/#.*/, "") } $1 == "hide_feature" && NF == 2 { printf " %s", $2 }' \
            "$knobs")
    fi
    # Within an expansion a here-document's quotes would be the shell's.
    [ -z "$exclude" ] || exclude=", exclude_features=\"$exclude\""
    cat > "$work/bochsrc" << END
config_interface: textconfig
display_library: nogui
cpu: model=$model, count=$cpus, ips=$ips, quantum=$quantum, reset_on_triple_fault=1
cpu: ignore_bad_msrs=1$exclude
memory: guest=$memory, host=$memory
romimage: file=$firmware, address=0x0
vgaromimage: file=$vga
vga: update_freq=1
pci: enabled=1, chipset=i440fx
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=disk, mode=flat, path="$(realpath "$disk")"
ata1: enabled=1, ioaddr1=0x170, ioaddr2=0x370, irq=15
boot: disk
com1: enabled=1, mode=null
clock: sync=none, time0=$power_on
mouse: enabled=0
port_e9_hack: enabled=0
log: $work/log
panic: action=$panic
error: action=$error
info: action=ignore
debug: action=ignore
END
}

# What the library reads; a name it does not find in the environment it does without.
unset TB_SERIAL_FILE TB_LEDGER TB_KNOBS TB_UNTIL TB_WORDS
unset TB_SERVER TB_SERVER_OWN TB_SERVER_AT TB_SERVER_UNUSED
export TB_SERIAL_FD=3 TB_LIMIT=$limit$million TB_UNTIL_TICKS=$after$million
[ -z "$until" ] || export TB_UNTIL=$until
[ -z "$words" ] || export TB_WORDS=$words
if [ -n "$serial" ]; then
    : 2> /dev/null > "$serial" || die "--serial: cannot write '$serial'"
    export TB_SERIAL_FILE=$serial
fi
if [ -n "$ledger" ]; then
    : 2> /dev/null > "$ledger" || die "--ledger: cannot write '$ledger'"
    export TB_LEDGER=$ledger
fi
if [ -n "$knobs" ]; then
    export TB_KNOBS=$knobs
fi

if [ -n "$from" ]; then
    run=("$here/fork_client.py" "$from" "TB_FOLDER=$PWD" "TB_DISK=$(realpath "$disk")"
    "TB_LOG=$work/log" "TB_OUT=$work/out" "TB_LIMIT=$TB_LIMIT" "TB_UNTIL_TICKS=$TB_UNTIL_TICKS")
    for name in TB_SERIAL_FILE TB_LEDGER TB_KNOBS TB_UNTIL TB_WORDS; do
        [ -z "${!name:-}" ] || run+=("$name=${!name}")
    done
else
    configure
    run=("$bochs" -q -f "$work/bochsrc")
fi
# Bochs' own last complaint.
panic_line() {
    grep -ahF '>>PANIC<<' "$work/log" "$work/out" 2> /dev/null | tail -n 1
}

# Returns when the server's socket is gone, or when nobody has touched the socket for --idle.
until_idle() {
    local touched
    until [ -e "$serve" ]; do
        kill -0 $$ || return 0
        sleep "$look_every"
    done
    while touched=$(stat --format=%Y "$serve") && [ $(($(date +%s) - touched)) -lt "$idle" ]; do
        sleep "$look_every"
    done
}

if [ -n "$serve" ]; then
    # The server ends with its standard input.
    if [ -n "$idle" ]; then
        exec < <(until_idle 2> /dev/null 3>&- 8<&-)
    fi
    export TB_SERVER=$serve TB_SERVER_DISK=$disk TB_SERVER_LOG=$work/log
    [ -z "$own" ] || export TB_SERVER_OWN=$own
    [ -z "$at" ] || export TB_SERVER_AT=$at TB_SERVER_UNUSED=$work/unused
    "${run[@]}" 3>&1 4<&0 > "$work/out" 2>&1 < /dev/null 8<&- ||
        die "the server ended: $(grep -a testbed: "$work/out" | head -n 1) $(panic_line)"
    exit 0
fi

# What the library has to say of a run that went on.
ignored='^testbed: ignored: '
status=0
# In the foreground, so that Ctrl-C reaches Bochs.
timeout --foreground --signal=TERM --kill-after="$kill_after" "$timeout" \
    "${run[@]}" 3>&1 > "$work/out" 2>&1 < /dev/null || status=$?
rm -f "$disk.lock"
sed -n "s/$ignored/testbed\\/run.sh: ignored: /p" "$work/out" >&2
case $status in
    0 | 3 | 5 | 6 | 124) ;;
    137) die "Bochs did not stop $kill_after s after the timeout and was killed" ;;
    *)
        # The library's own line, else Bochs' last complaint, else the last thing that it said.
        {
            grep -aE '^testbed: ' "$work/out" | grep -av "$ignored" | head -n 1 |
                sed 's/^testbed: //'
            panic_line
            grep -avE "^=*$|$ignored" "$work/out" | tail -n 1
        } > "$work/line" 2> /dev/null || true
        die "Bochs ended with status $status: $(head -n 1 "$work/line")"
        ;;
esac
exit "$status"
