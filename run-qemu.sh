#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Boots a disk with PMUvisor and its guest (or the guest natively): under QEMU/KVM where nested VMX
# truly works, else in the emulator of testbed/. With --guest direct: a kernel under QEMU/KVM alone,
# to compare with. The guest's console is on stdout, all else on stderr.
set -euo pipefail

usage() {
    cat << 'USAGE'
usage: run-qemu.sh [options]
  --backend auto|kvm|emulator  where to run; auto (default) takes kvm where it works
                               (tcg: QEMU without VMX, where PMUvisor refuses to start; for tests)
  --native                     boot the kernel without PMUvisor
  --guest disk|direct          direct: no disk, firmware or PMUvisor, QEMU itself loads kernel and
                               initrd: how KVM does alone. Needs KVM on VMX, but not nested
  --disk FILE                  boot this disk, a file or a device, as it is; of the options below
                               only those of the machine and of the files written count
  --kernel FILE                default: Debian's kernel (GUEST=cloud or GUEST=stock)
  --initrd FILE                default: the project's own initramfs
  --program "FILE WORDS"       a program of your own, linked statically, is what the guest runs; the
                               files that it leaves in its folder come out with --files
                               (docs/program.md)
  --perf "WORDS"               with --program: it runs under Debian's perf, by these words of that,
                               such as "record -e cycles:u -c 10007"; perf.data is then one of its
                               files
  --files DIR                  the folder for the guest's files (emulator only)
  --model NAME                 the processor, a model of Bochs such as sapphire_rapids (emulator
                               only; testbed/README.md)
  --serve SOCKET               boot up to the guest's init, print "ready", and wait there until this
                               is ended, for runs --from it (emulator only)
  --from SOCKET                go on from there: seconds in place of a boot. --append has words for
                               the guest's init then, such as "pmv.args=3,4" (docs/program.md);
                               machine, disk and knobs are the server's
  --append S                   added to the kernel command line "console=ttyS0 quiet ..."
                               (own initramfs: pmv.run=a1,report and pmv.end=poweroff|reboot;
                               the test kernel: tests=TESTS)
  --config "k=v ..."           options of PMUvisor (pmuvisor.cfg)
  --cpus N                     default 1
  --memory MiB                 default 512
  --timeout S                  default 600
  --serial FILE                copy of the guest's console
  --ledger FILE                the emulator's account of exits (emulator only)
  --knobs FILE                 what its machine is to be (emulator only; testbed/README.md)
  --knob "LINE"                one line more of that, such as "exit_lines on" (may be repeated)
  --efi FILE                   default: build/pmuvisor.efi, or build/pmuvisor-lab.efi where
                               --config has an option of an experiment
  --firmware FILE              default: Debian's OVMF, /usr/share/ovmf/OVMF.fd
  --qemu "S"                   words for QEMU's command line
  --probe                      print the backend that auto takes here, and end
exit status: 0 the guest powered itself off, 124 timeout, 3 the guest reset the machine,
             4 PMUvisor refused to start, 6 the guest's kernel panicked, 1 other
USAGE
}

fail() {
    echo "run-qemu.sh: $*" >&2
    exit 1
}

top=$(cd "$(dirname "$0")" && pwd)
backend=auto native=0 guest=disk probe=0 disk='' kernel='' initrd='' append='' config='' qemu=''
program='' perf='' files=''
cpus=1 memory=512 timeout=600 model='' serve='' from='' serve_limit=20000
serial='' ledger='' knobs='' knob_lines=() efi='' firmware=/usr/share/ovmf/OVMF.fd
# Linux's last words after a panic, unless a crash kernel takes over or it resets the machine
# (panic=N).
panic_end='---[ end Kernel panic - not syncing'
# fred=off is the menu's for native, too. Linux 6.1 hands a word that it does not know to init's
# environment, which a program's start reads: both sides have it.
base_append='console=ttyS0,115200 quiet cryptomgr.notests=1 fred=off'
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help)
            usage
            exit 0
            ;;
        --native)
            native=1
            shift
            continue
            ;;
        --probe)
            probe=1
            shift
            continue
            ;;
        --backend | --guest | --disk | --kernel | --initrd | --append | --config | --cpus | \
            --memory | --timeout | --serial | --ledger | --knobs | --knob | --efi | --firmware | \
            --qemu | --program | --perf | --files | --model | --serve | --from)
            [ $# -ge 2 ] || fail "$1 wants a value (see --help)"
            ;;
        *) fail "unknown option '$1' (see --help)" ;;
    esac
    case $1 in
        --backend) backend=$2 ;;
        --guest) guest=$2 ;;
        --disk) disk=$2 ;;
        --qemu) qemu=$2 ;;
        --kernel) kernel=$2 ;;
        --initrd) initrd=$2 ;;
        --append) append=$2 ;;
        --config) config=$2 ;;
        --cpus) cpus=$2 ;;
        --memory) memory=$2 ;;
        --timeout) timeout=$2 ;;
        --serial) serial=$2 ;;
        --ledger) ledger=$2 ;;
        --knobs) knobs=$2 ;;
        --knob) knob_lines+=("$2") ;;
        --program) program=$2 ;;
        --perf) perf=$2 ;;
        --files) files=$2 ;;
        --model) model=$2 ;;
        --serve) serve=$2 ;;
        --from) from=$2 ;;
        --efi) efi=$2 ;;
        --firmware) firmware=$2 ;;
    esac
    shift 2
done
# Before a boot, which would end at such an option; an image of the user's own may have others.
[ -n "$efi$disk" ] || [ -z "$config" ] ||
    fault=$(/usr/bin/python3 -B "$top/docs/options.py" --check "$config" 2>&1) ||
    fail "--config: $fault"
: "${efi:=$("$top/testbed/image.sh" "$config")}"
for number in "--cpus $cpus" "--memory $memory" "--timeout $timeout"; do
    [[ $number =~ \ [1-9][0-9]*$ ]] || fail "bad value: $number, wanted a positive number"
done

case $guest in
    disk | direct) ;;
    *) fail "unknown guest '$guest', wanted disk or direct" ;;
esac
if [ "$guest" = direct ] && { [ $native -eq 1 ] || [ -n "$config" ]; }; then
    fail "--guest direct has neither menu nor PMUvisor; leave out --native and --config"
fi

# Why KVM cannot be used here, on stdout; nothing when it can. Opening /dev/kvm is not enough: it is
# there on AMD's SVM too, and with PVM even where the processor has neither. PMUvisor also needs VMX
# inside the virtual machine.
kvm_obstacle() {
    local nested=/sys/module/kvm_intel/parameters/nested
    if ! grep -qw vmx /proc/cpuinfo; then
        echo "the processor has no VMX, or firmware or an outer hypervisor has turned it off"
    elif [ ! -e /dev/kvm ]; then
        echo "there is no /dev/kvm (modprobe kvm_intel)"
    elif ! (exec 3<> /dev/kvm) 2> /dev/null; then
        echo "/dev/kvm cannot be opened (add yourself to its group: sudo usermod -aG kvm USER)"
    elif [ ! -e /sys/module/kvm_intel ]; then
        echo "/dev/kvm is there, but not by kvm_intel (modprobe kvm_intel)"
    elif [ "$guest" = direct ]; then
        return
    elif [ ! -r $nested ] || ! grep -qx '[Y1]' $nested; then
        echo "nested VMX is off (to turn it on:" \
            "modprobe -r kvm_intel && modprobe kvm_intel nested=1)"
    fi
}

say_backend() {
    echo "run-qemu.sh: backend $1: $2" >&2
}

case $backend in
    auto)
        obstacle=$(kvm_obstacle)
        if [ "$guest" = direct ]; then
            [ -z "$obstacle" ] || fail "--guest direct wants KVM on VMX: $obstacle;" \
                "the emulator has this column as the payload's job kvm"
            backend=kvm
            say_backend kvm "/dev/kvm opens and is kvm_intel's"
        elif [ -n "$obstacle" ]; then
            backend=emulator
            say_backend emulator "$obstacle"
        elif [ -n "$ledger$files${knob_lines[*]}$model$serve$from" ]; then
            backend=emulator
            say_backend emulator \
                "only it has --ledger, --files, --knob, --model, --serve and --from"
        else
            backend=kvm
            say_backend kvm "/dev/kvm opens, the processor has VMX and nested VMX is on"
        fi
        ;;
    kvm)
        obstacle=$(kvm_obstacle)
        [ -z "$obstacle" ] || fail "backend kvm cannot be used: $obstacle"
        say_backend kvm "asked for"
        ;;
    emulator | tcg)
        [ "$guest $backend" != "direct emulator" ] ||
            fail "--guest direct is QEMU's, the backend is emulator; use the payload's job kvm"
        say_backend "$backend" "asked for"
        ;;
    *) fail "unknown backend '$backend', wanted auto, kvm or emulator" ;;
esac
if [ $probe -eq 1 ]; then
    echo "$backend"
    exit 0
fi
if [ -n "$ledger" ] && [ "$backend" != emulator ]; then
    fail "--ledger is the emulator's, the backend is $backend;" \
        "leave it out or use --backend emulator"
fi

for option in "--knobs $knobs" "--knob ${knob_lines[*]}" "--files $files" "--model $model" \
    "--serve $serve" "--from $from"; do
    [ -z "${option#* }" ] || [ "$backend" = emulator ] || fail "${option%% *} is the emulator's," \
        "the backend is $backend; leave it out or use --backend emulator"
done
[ -z "$knobs" ] || [ -r "$knobs" ] || fail "--knobs: cannot read $knobs"
[ -z "$files" ] || knob_lines+=("guest_files $(realpath -m "$files")")
[ -z "$perf" ] || [ -n "$program" ] || fail "--perf is for --program, which is not given"
[ -z "$from" ] || [ -z "$program$disk$serve$config$model" ] ||
    fail "--from takes up what the server has: give --program, --disk, --config and --model there"
[ -z "$serve" ] || append+=" pmv.words=emulator"
# The emulator ends at an exit from 5-level paging (testbed/README.md).
[ "$model" != sapphire_rapids ] || append+=" no5lvl"
[ -z "$program" ] || [ -z "$disk" ] || fail "--program is for a disk that is made, not for --disk"

# What a disk of our own is made of, or direct's kernel and initramfs.
find_files() {
    # Before anything is fetched or built.
    if [ $native -eq 0 ] && [ "$guest" = disk ] && [ ! -r "$efi" ]; then
        fail "cannot read $efi; build it first: make lab"
    fi
    if [ -z "$kernel" ]; then
        kernel=$("$top/programs/kernel.sh" | sed -n 1p)
        [ -n "$kernel" ] || fail "no kernel for the guest (see above); or give one: --kernel FILE"
    fi
    if [ -z "$initrd" ]; then
        initrd=$top/build/payload/$([ -n "$perf" ] && echo perf || echo initrd)-${GUEST:-cloud}.img
        mkdir -p "$top/build"
        env -u MAKEFLAGS -u MAKELEVEL flock "$top/build/.make.lock" make -s -C "$top" \
            "build/payload/${initrd##*/}" >&2 ||
            fail "no initramfs (see above); or give one: --initrd FILE"
    fi
}

# The user's program and what it is to run under, for the guest's job `program`: an archive of its
# own in front of the image's, which may be compressed.
add_program() {
    local -a words perf_words
    local root=$work/root file
    read -ra words <<< "$program"
    read -ra perf_words <<< "$perf"
    file=${words[0]}
    [ -f "$file" ] || fail "--program: no such file: '$file'; build it first"
    [ -x "$file" ] || fail "--program: '$file' is not executable; build it first"
    ! readelf --program-headers "$file" 2> /dev/null | grep INTERP > /dev/null ||
        fail "--program: '$file' wants libraries, which the guest has not; link it with -static"
    mkdir -p "$root/program"
    cp "$file" "$root/program/"
    words[0]=/program/$(basename "$file")
    {
        if [ -n "$perf" ]; then
            printf '%s\n' /usr/bin/perf "${perf_words[@]}"
            [ "${perf_words[0]}" != record ] || printf '%s\n' -o perf.data
            echo --
        fi
        printf '%s\n' "${words[@]}"
        [ "${perf_words[0]:-}" != record ] ||
            printf '%s\n' '' /usr/bin/perf report -i perf.data --stdio \
                --stdio-color never
    } > "$root/program/commands"
    find "$root" -exec touch --no-dereference --date=@1704067200 {} +
    # shellcheck source=programs/payload/parts.sh
    . "$top/programs/payload/parts.sh"
    archive "$root" | cat - "$initrd" > "$work/initrd.img"
    initrd=$work/initrd.img
    append="pmv.run=program${append:+ $append}"
}

# For testbed/disk.sh.
choose_entry() {
    # The menu's entry names the policy, and its load options win over pmuvisor.cfg.
    # shellcheck disable=SC2034 # measurements.sh reads it
    measurements_top=$top
    # shellcheck source=bench/measurements.sh
    . "$top/bench/measurements.sh"
    entry=msr+nmi
    for word in $config; do
        case $word in
            policy=*)
                # A policy without an entry is for the hypervisor to refuse.
                # Not grep -q, which leaves before column_rows has written all: that then fails.
                ! column_rows | grep "^${word#policy=} pmuvisor $word " > /dev/null ||
                    entry=${word#policy=}
                ;;
        esac
    done
    disk_options=(--kernel "$kernel" --initrd "$initrd" --config "$config"
        --append "$base_append${append:+ $append}")
    if [ $native -eq 1 ]; then
        entry=native
    fi
    # The menu finds the volume by this file, also for its entry without a hypervisor.
    [ ! -r "$efi" ] || disk_options+=(--efi "$efi")
}

work=$(mktemp -d "${TMPDIR:-/tmp}/pmuvisor-run.XXXXXX")
trap 'rm -rf "$work"' EXIT
made=0
if [ -n "$from" ]; then
    [ -S "$from" ] || fail "--from: '$from' is no server's socket; start one: --serve $from"
elif [ -z "$disk" ]; then
    find_files
    [ -z "$program" ] || add_program
    choose_entry
    made=1
elif [ ! -r "$disk" ]; then
    fail "--disk: cannot read $disk"
fi

[ $made -eq 0 ] || disk=$work/disk.img
: "${serial:=$work/serial}"

run_emulator() {
    local options=(--timeout "$timeout" --serial "$serial" --until "$panic_end" --after 1)
    local machine=(--disk "$disk" --cpus "$cpus" --memory "$memory" --firmware "$firmware"
        ${model:+--model "$model"})
    [ -z "$from" ] || machine=(--from "$from" --words "$append")
    [ -z "$ledger" ] || options+=(--ledger "$ledger")
    if [ ${#knob_lines[@]} -gt 0 ]; then
        cat "${knobs:-/dev/null}" > "$work/knobs"
        printf '%s\n' "${knob_lines[@]}" >> "$work/knobs"
        knobs=$work/knobs
    fi
    [ -z "$knobs" ] || options+=(--knobs "$knobs")
    if [ $made -eq 1 ]; then
        "$top/testbed/disk.sh" --out "$disk" --entry "$entry" --cpus "$cpus" \
            "${disk_options[@]}" || exit 1
    fi
    if [ -n "$serve" ]; then
        # Its standard input ends with this script.
        tail --pid=$$ --follow /dev/null | "$top/testbed/run.sh" --serve "$serve" --at init \
            --limit "$serve_limit" "${machine[@]}" ${knobs:+--knobs "$knobs"}
    else
        "$top/testbed/run.sh" "${options[@]}" "${machine[@]}" | "$top/testbed/screen.py"
    fi
}

# QEMU's exit status does not tell a power-off from a reset; its QMP events do. One pipe carries the
# command that turns them on, the other the events.
run_qemu() {
    local status=0 reason machine events_pid
    local console="stdio,id=com1,signal=on,logfile=$serial"
    local processor=host,+vmx,pmu=on
    local -a qemu_words
    read -ra qemu_words <<< "$qemu"
    local source=(-bios "$firmware" -drive "file=$disk,format=raw,if=ide")
    if ! command -v qemu-system-x86_64 > /dev/null || [ ! -r "$firmware" ]; then
        "$top/testbed/deps.sh" kvm || exit 1
    fi
    if [ "$guest" = direct ]; then
        processor=host,pmu=on
        source=(-kernel "$kernel" -initrd "$initrd" -append "$base_append${append:+ $append}")
    elif [ $made -eq 1 ]; then
        "$top/testbed/disk.sh" --out "$disk" --entry "$entry" "${disk_options[@]}" || exit 1
    fi
    case $backend in
        kvm) machine=(-machine "q35,accel=kvm" -cpu "$processor") ;;
        tcg) machine=(-machine "q35,accel=tcg" -cpu Skylake-Server) ;;
    esac
    mkfifo "$work/qmp.in" "$work/qmp.out"
    exec 4<> "$work/qmp.in"
    echo '{"execute": "qmp_capabilities"}' >&4
    cat "$work/qmp.out" > "$work/qmp.events" &
    events_pid=$!
    # Both end with the reader of the events.
    (grep -aqF -- "$panic_end" < <(tail --pid="$events_pid" --bytes=+1 --follow "$serial") &&
        echo '{"execute": "quit"}' >&4) 2> /dev/null &
    timeout --foreground "$timeout" qemu-system-x86_64 "${machine[@]}" -smp "$cpus" -m "$memory" \
        "${source[@]}" -nodefaults -vga std -display none \
        -chardev "$console" -serial chardev:com1 -no-reboot \
        -chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control \
        "${qemu_words[@]}" \
        2> "$work/qemu.err" || status=$?
    # Opened and closed once more: the reader ends even where QEMU never opened the pipe.
    exec 5<> "$work/qmp.out"
    exec 5>&- 4>&-
    wait "$events_pid"
    # TCG lists every feature of the model that it lacks; that is no news here.
    grep -v "warning: TCG doesn't support" "$work/qemu.err" >&2 || true
    [ $status -ne 124 ] || {
        echo "run-qemu.sh: timeout after $timeout s" >&2
        return 124
    }
    reason=$(grep -a '"SHUTDOWN"' "$work/qmp.events" | grep -ao '"reason": *"[a-z-]*"' |
        head -n 1 | cut -d '"' -f 4) || true
    case $reason in
        guest-shutdown) return 0 ;;
        host-qmp-quit) return 6 ;;
        guest-reset)
            echo "run-qemu.sh: the guest reset the machine" >&2
            return 3
            ;;
        *)
            echo "run-qemu.sh: QEMU ended without a power-off of the guest" \
                "(reason ${reason:-unknown}, exit status $status)" >&2
            return 1
            ;;
    esac
}

# Both functions end the script themselves where the run cannot start.
: > "$serial" || fail "--serial: '$serial' cannot be written"
status=0
case $backend in
    emulator) run_emulator || status=$? ;;
    kvm | tcg) run_qemu || status=$? ;;
esac
[ $status -ne 6 ] || echo "run-qemu.sh: the guest's kernel panicked" >&2
if [ $status -ne 0 ]; then
    refusal=$(PYTHONPATH=$top /usr/bin/python3 -B -m testbed.sentence --refusal "$serial")
    if [ -n "$refusal" ]; then
        echo "run-qemu.sh: $refusal" >&2
        exit 4
    fi
fi
exit $status
