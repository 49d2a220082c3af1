#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The guard of the boot menu (grub.cfg): the guest says that it is up, or the next start of the menu
# takes the native entry. Touches ESP/EFI/pmuvisor/grubenv, and with --install and --remove this
# system's own /usr/local/sbin/pmuvisor-up and its systemd unit. Needs bash, coreutils, sed and the
# kernel's driver cpuid. Runs at each boot, native or not: elsewhere it does nothing.
set -euo pipefail

usage="usage: guard.sh [option] ESP
  without         the guest is up: called by the unit, at each boot
  --again         the next start of the menu tries PMUvisor once more
  --install       the guard on: this script as a systemd unit of this system, and grubenv
  --remove        and off"

fail() {
    echo "guard.sh: $*" >&2
    exit 1
}

# A root file system and a system's state elsewhere, for tests.
root=${GUARD_ROOT:-}
program=/usr/local/sbin/pmuvisor-up
units=$root/etc/systemd/system
unit=pmuvisor-up.service

what=up
case ${1:-} in
    -h | --help) echo "$usage" && exit 0 ;;
    --again | --install | --remove)
        what=${1#--}
        shift
        ;;
    -*) fail "unknown option '$1', wanted --again, --install or --remove (see --help)" ;;
esac
[ $# -eq 1 ] ||
    fail "no ESP given; say where the EFI system partition is mounted: guard.sh /boot/efi"
esp=$1
[ ! -d "$esp" ] || [ -x "$esp" ] || fail "'$esp' cannot be entered; be root"
grubenv=$esp/EFI/pmuvisor/grubenv

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

case $what in
    up)
        # Without a guard, or started by another menu: nothing to say. `trying` may be left from a
        # start before a native one: only in a guest does CPUID name PMUvisor.
        [ -r "$grubenv" ] && [ "$(guard)" = trying ] || exit 0
        under_pmuvisor || exit 0
        write_guard up
        ;;
    again)
        [ -d "$esp/EFI/pmuvisor" ] || fail "'$esp/EFI/pmuvisor' is not there; first: make install"
        write_guard ''
        ;;
    install)
        [ -d "$esp/EFI/pmuvisor" ] || fail "'$esp/EFI/pmuvisor' is not there; first: make install"
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
        ;;
    remove)
        rm -f "$grubenv" "$root$program" "$units/$unit" "$units/multi-user.target.wants/$unit"
        ;;
esac
