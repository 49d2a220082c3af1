#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The guard of the boot menu (grub.cfg): the guest says that it is up, or the next start of the menu
# takes the native entry. Touches ESP/EFI/pmuvisor/grubenv, and with --install and --remove this
# system's own /usr/local/sbin/pmuvisor-up and its systemd unit. Needs bash, coreutils, sed and the
# kernel's driver cpuid. Runs at each boot, native or not: elsewhere it does nothing.
# --server and --once are for a machine without anybody at its screen (docs/server.md), with
# Debian's GRUB; --server says which files it changes, and --remove changes them back.
set -euo pipefail

usage="usage: guard.sh [option] ESP
  without         the guest is up: called by the unit, at each boot
  --again         the next start of the menu tries PMUvisor once more
  --install       the guard on: this script as a systemd unit of this system, and grubenv
  --server        the same; an entry in GRUB's menu; a reset after a fault, panic or hang
  --once          GRUB's next start, and only this one, takes that entry
  --remove        all of it off"

fail() {
    echo "guard.sh: $*" >&2
    exit 1
}

# A root file system and a system's state elsewhere, for tests.
root=${GUARD_ROOT:-}
program=/usr/local/sbin/pmuvisor-up
units=$root/etc/systemd/system
unit=pmuvisor-up.service
watchdog=$root/etc/systemd/system.conf.d/pmuvisor.conf
grub=$root/boot/grub
entry=pmuvisor
panic_seconds=10

what=up
case ${1:-} in
    -h | --help) echo "$usage" && exit 0 ;;
    --again | --install | --server | --once | --remove)
        what=${1#--}
        shift
        ;;
    -*) fail "unknown option '$1', wanted --again, --install, --server, --once or --remove" ;;
esac
[ $# -eq 1 ] ||
    fail "no ESP given; say where the EFI system partition is mounted: guard.sh /boot/efi"
esp=$1
folder=$esp/EFI/pmuvisor
[ ! -d "$esp" ] || [ -x "$esp" ] || fail "'$esp' cannot be entered; be root"
grubenv=$folder/grubenv

# GRUB's environment block has 1024 bytes, padded with #; GRUB can write one, but not make it.
write_guard() { # write_guard VALUE
    local text=$'# GRUB Environment Block\nguard='$1$'\n' padding
    printf -v padding '%*s' $((1024 - ${#text})) ''
    # In place where it is there, so that a power cut leaves one or the other.
    printf '%s%s' "$text" "${padding// /#}" | dd of="$grubenv" conv=notrunc,fsync status=none ||
        fail "cannot write '$grubenv'; is '$esp' mounted, and writable by you?"
}

# Leaf 0x40000000, by the kernel's driver: a read at the leaf's number gives EAX, EBX, ECX, EDX.
# With hypervisor_bit=off /proc/cpuinfo does not say it.
under_pmuvisor() {
    [ -e "$root/dev/cpu/0/cpuid" ] || modprobe -q cpuid || true
    [ "$(dd if="$root/dev/cpu/0/cpuid" iflag=skip_bytes skip=$((0x40000000)) bs=16 count=1 \
        status=none 2> /dev/null | tail -c 12 | tr -d '\0')" = PMUvisorPMUv ]
}

guard() {
    sed -n 's/^guard=//p' "$grubenv"
}

need_installed() {
    [ -d "$folder" ] || fail "'$folder' is not there; first: make install"
}

# What this script adds to a file that others write, too: lines between these two.
begin="# From here on by PMUvisor's guard.sh --server."
end="# Up to here by PMUvisor's guard.sh --server."

remove_lines() { # remove_lines FILE
    [ -e "$1" ] || return 0
    sed -i "/^$begin\$/,/^$end\$/d" "$1"
    [ -s "$1" ] || rm "$1"
}

add_lines() { # add_lines FILE: the lines of standard input
    remove_lines "$1"
    [ -z "$(tail -qc 1 "$1" 2> /dev/null)" ] || echo >> "$1"
    { echo "$begin" && cat && echo "$end"; } >> "$1"
    echo "Changed: $1"
}

# Debian's GRUB: its grub.cfg clears a one-time entry before it starts the entry, and reads
# custom.cfg.
need_grub() {
    local word
    for word in next_entry custom.cfg; do
        grep -q "$word" "$grub/grub.cfg" 2> /dev/null ||
            fail "'$grub/grub.cfg' has no '$word', wanted that of Debian's update-grub; without" \
                "it, use PMUvisor's own menu: guard.sh --install $esp"
    done
}

# Whether this installation measures by itself (install.sh --plan).
measures() {
    grep -qs '^set bench=' "$folder/local.cfg"
}

# The machine's own menu. A start of PMUvisor that has ended is noted, and its log saved, before
# another system takes the memory that the log lies in.
menu_lines() {
    cat << 'END'
set pmv_was=$root
if search --no-floppy --set=root --file /EFI/pmuvisor/grubenv; then
    load_env -f /EFI/pmuvisor/grubenv guard
    if [ "$guard" = trying -o "$guard" = up ]; then
        if [ "$guard" = trying ]; then
            set guard=failed
        else
            set guard=
        fi
        if save_env -f /EFI/pmuvisor/grubenv guard; then
            chainloader /EFI/pmuvisor/pmuvisor.efi start=off
            boot
        fi
    fi
fi
set root=$pmv_was
END
    # The measurements take each start, until all of them are done.
    measures || echo "menuentry PMUvisor --id $entry {"
    cat << 'END'
    search --no-floppy --set=root --file /EFI/pmuvisor/grub.cfg
    configfile /EFI/pmuvisor/grub.cfg
    set root=$pmv_was
END
    measures || echo '}'
}

# A fault in root mode and a panic of the guest end in a reset. append= takes the rest of its line,
# so its new word is at the line's end; panic_remark says that the word is not the user's own.
panic_remark="# And panic=$panic_seconds at the end of append=."
add_options() {
    local options=$folder/pmuvisor.cfg lines=fault=reset
    remove_options
    if ! grep -q '^append=\(.* \)\?panic=' "$options"; then
        sed -i "s/^append=.*/& panic=$panic_seconds/" "$options"
        lines+=$'\n'$panic_remark
    fi
    add_lines "$options" <<< "$lines"
}

remove_options() {
    local options=$folder/pmuvisor.cfg
    [ -e "$options" ] || return 0
    ! grep -qxF "$panic_remark" "$options" ||
        sed -i "s/^\(append=.*\) panic=$panic_seconds\$/\1/" "$options"
    remove_lines "$options"
}

# A refused start goes on with the menu's first entry (grub.cfg): a restart, into GRUB's default.
# The measurements note a refusal, and have no entry at their end.
local_lines() {
    echo "set append=\"\$append panic=$panic_seconds\""
    measures ||
        echo "menuentry \"Restart: this machine's own system\" --id restart { reboot }"
}

watchdog_lines() {
    printf '%s\n' '[Manager]' 'RuntimeWatchdogSec=1min' 'RebootWatchdogSec=10min'
}

say_watchdogs() {
    local name found=0
    for name in "$root"/sys/class/watchdog/*/identity; do
        [ ! -r "$name" ] || [ "$(cat "$name")" = "Software Watchdog" ] || {
            echo "Watchdog: $(cat "$name")"
            found=1
        }
    done
    [ $found -eq 1 ] ||
        echo "Watchdog: Linux has found none in hardware; a hang costs a reset by the machine's" \
            "owner. Load the driver at each start (iTCO_wdt, ipmi_watchdog, ...), if there is one."
}

case $what in
    up)
        # Without a guard, or started by another menu: nothing to say. `trying` may be left from a
        # start before a native one: only in a guest does CPUID name PMUvisor.
        [ -r "$grubenv" ] && [ "$(guard)" = trying ] || exit 0
        under_pmuvisor || exit 0
        write_guard up
        ;;
    again)
        need_installed
        write_guard ''
        ;;
    once)
        need_installed
        ! measures ||
            fail "'$folder/local.cfg' has 'bench=', so each start measures: restart the machine;" \
                "without measurements: make install ESP=$esp BENCH=none, and guard.sh --server $esp"
        grep -qs "id $entry " "$grub/custom.cfg" ||
            fail "'$grub/custom.cfg' has no entry '$entry'; first: guard.sh --server $esp"
        write_guard ''
        grub-reboot --boot-directory="${grub%/grub}" "$entry"
        echo "GRUB's next start takes the entry '$entry', the one after that the default again."
        ;;
    install | server)
        need_installed
        [ "$what" = install ] || need_grub
        [ -d "$units" ] || fail "'$units' is not there: this system has no systemd; have it run" \
            "'guard.sh $esp' when it is up, and turn the guard on by: guard.sh --again $esp"
        esp=$(realpath "$esp")
        mkdir -p "$root${program%/*}" "$units/multi-user.target.wants"
        install -m 755 "$0" "$root$program"
        cat > "$units/$unit" << END
# Written by PMUvisor's guard.sh: says to its boot menu that this system is up.
[Unit]
Description=PMUvisor: the guest is up
RequiresMountsFor=$esp
After=local-fs.target

[Service]
Type=oneshot
ExecStart=$program $esp

[Install]
WantedBy=multi-user.target
END
        ln -sf "../$unit" "$units/multi-user.target.wants/$unit"
        [ -e "$grubenv" ] || write_guard ''
        [ "$what" = server ] || exit 0
        echo "Changed: $grubenv, $root$program, $units/$unit"
        add_options
        local_lines | add_lines "$folder/local.cfg"
        menu_lines | add_lines "$grub/custom.cfg"
        mkdir -p "${watchdog%/*}"
        watchdog_lines > "$watchdog"
        echo "Changed: $watchdog"
        say_watchdogs
        ;;
    remove)
        rm -f "$grubenv" "$root$program" "$units/$unit" "$units/multi-user.target.wants/$unit" \
            "$watchdog"
        remove_options
        remove_lines "$folder/local.cfg"
        remove_lines "$grub/custom.cfg"
        # An entry that nobody has started yet.
        [ "$(sed -n 's/^next_entry=//p' "$grub/grubenv" 2> /dev/null)" != "$entry" ] ||
            grub-editenv "$grub/grubenv" unset next_entry
        ;;
esac
