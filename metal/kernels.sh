# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# kernels.sh: where a distribution keeps a kernel and its initramfs. Sourced; reads files alone.
# The system's root is $1 everywhere, empty for this one. Known are the names of Debian and Ubuntu,
# of Fedora and its kin, of openSUSE, what kernel-install makes, and the Boot Loader Specification's
# entries (UAPI group, "Type #1 Boot Loader Specification Entries").

# The first of these files that is there.
first_there() {
    local file
    for file in "$@"; do
        if [ -f "$file" ]; then
            echo "$file"
            return 0
        fi
    done
    return 1
}

# A file that a boot loader's entry for this release names: the first word after KEY. Its path
# begins at the root of the partition that the entry lies on.
from_entry() { # from_entry ROOT RELEASE KEY
    local boot entry path
    for boot in boot boot/efi efi; do
        for entry in "$1/$boot/loader/entries"/*.conf; do
            [ -r "$entry" ] && grep -q "^version[[:space:]]\+$2[[:space:]]*\$" "$entry" || continue
            path=$(sed -n "s/^$3[[:space:]]\+\([^[:space:]]*\).*/\1/p" "$entry" | head -n 1)
            [ -z "$path" ] || first_there "$1/$boot/${path#/}" "$1/${path#/}" || continue
            [ -z "$path" ] || return 0
        done
    done
    return 1
}

kernel_of() { # kernel_of ROOT RELEASE
    first_there "$1/boot/vmlinuz-$2" "$1/lib/modules/$2/vmlinuz" "$1/usr/lib/modules/$2/vmlinuz" \
        "$1"/{boot,boot/efi,efi}/*/"$2"/linux || from_entry "$1" "$2" linux
}

initrd_of() { # initrd_of ROOT RELEASE
    first_there "$1/boot/initrd.img-$2" "$1/boot/initramfs-$2.img" "$1/boot/initrd-$2" \
        "$1/usr/lib/modules/$2/initrd" "$1"/{boot,boot/efi,efi}/*/"$2"/initrd ||
        from_entry "$1" "$2" initrd
}

# The releases of which a kernel is there, the newest last.
releases() { # releases ROOT
    local file
    for file in "$1"/boot/vmlinuz-* "$1"/{,usr/}lib/modules/*/vmlinuz \
        "$1"/{boot,boot/efi,efi}/*/*/linux "$1"/{boot,boot/efi,efi}/loader/entries/*.conf; do
        [ ! -f "$file" ] || case $file in
            *.conf) sed -n 's/^version[[:space:]]\+//p' "$file" ;;
            */vmlinuz | */linux) basename "$(dirname "$file")" ;;
            *) echo "${file##*/vmlinuz-}" ;;
        esac
    done | sed '/rescue/d' | sort -Vu
}

# The release that a kernel's own file says. Linux, Documentation/arch/x86/boot.rst,
# "kernel_version": at 0x20e, less 512, is where its text begins. Nothing where it is no kernel.
release_of() { # release_of FILE
    local at
    [ "$(od -A n -c -j $((0x202)) -N 4 "$1" 2> /dev/null | wc -w)" = 4 ] &&
        [ "$(dd if="$1" bs=1 skip=$((0x202)) count=4 2> /dev/null)" = HdrS ] || return 0
    at=$(od -A n -t u2 -j $((0x20e)) -N 2 "$1")
    [ "$at" -ne 0 ] || return 0
    dd if="$1" bs=1 skip=$((at + 512)) count=128 2> /dev/null | tr '\0' '\n' | head -n 1 |
        cut -d ' ' -f 1
}

# Where this system's GRUB looks for custom.cfg; nothing where it has no GRUB.
grub_folder() { # grub_folder ROOT
    local name
    for name in grub2 grub; do
        if [ -e "$1/boot/$name/grub.cfg" ]; then
            echo "/boot/$name"
            return
        fi
    done
}
