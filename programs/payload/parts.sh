# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# parts.sh: what images of the guest's root are made of. Sourced; wants the function fail. Writes
# only in the folders it is given.

# The kernel's own module, uncompressed. One that the kernel has built in is simply not there.
add_module() { # add_module ROOT MODULES NAME
    local root=$1 found target=$1/lib/modules/$3.ko
    found=$(find "$2" -name "$3.ko*" -print -quit)
    mkdir -p "$root/lib/modules"
    case $found in
        '') ;;
        *.ko) cp "$found" "$target" ;;
        *.ko.xz) xz -dc "$found" > "$target" ;;
        *.ko.zst) zstd -qdc "$found" > "$target" ;;
        *.ko.gz) gzip -dc "$found" > "$target" ;;
        *) fail "unknown compression: $found" ;;
    esac
}

# A program out of the folder that fetch.sh printed, with the libraries that it is linked with. They
# are the folder's own, as is the loader that finds them, so that nothing of this machine comes in.
# Debian 12 has some programs in /bin, Debian 13 has all in /usr/bin. PATH is the place in ROOT.
add_program() { # add_program ROOT PACKAGES PATH
    local root=$1 packages=$2 program=$3 found loader library folder
    local libraries=$packages/lib/x86_64-linux-gnu:$packages/usr/lib/x86_64-linux-gnu
    found=$packages/$program
    [ -x "$found" ] || found=$packages/usr/$program
    [ -x "$found" ] || fail "the packages have no $program (fetch.sh --update?)"
    mkdir -p "$root/$(dirname "$program")"
    cp -L "$found" "$root/$program"
    for folder in lib64 usr/lib64 lib/x86_64-linux-gnu usr/lib/x86_64-linux-gnu; do
        loader=$packages/$folder/ld-linux-x86-64.so.2
        # Debian 12's /lib64 holds an absolute link, which would lead out of the folder.
        if [ -x "$loader" ] && [ ! -L "$loader" ]; then
            break
        fi
    done
    [ -x "$loader" ] || fail "the packages have no ld-linux-x86-64.so.2"
    mkdir -p "$root/lib64" "$root/lib/x86_64-linux-gnu"
    cp "$loader" "$root/lib64/ld-linux-x86-64.so.2"
    # "name => path (address)"; the loader itself and the vDSO have other forms.
    while read -r library; do
        case $library in
            "$packages"/*) cp -L "$library" "$root/lib/x86_64-linux-gnu/" ;;
            *) fail "$program wants $library, which the packages do not have" ;;
        esac
    done < <("$loader" --inhibit-cache --library-path "$libraries" --list "$found" |
        sed -n 's/^[^ ]* *=> *\(.*[^ ]\)$/\1/p' | sed 's/^\t*//; s/ (0x[0-9a-f]*)$//' |
        grep -v '/ld-linux-x86-64')
}

# A static busybox under the name of each of its applets.
add_busybox() { # add_busybox ROOT PACKAGES
    local root=$1 busybox applet
    for busybox in "$2/bin/busybox" "$2/usr/bin/busybox" ''; do
        [ ! -x "$busybox" ] || break
    done
    [ -n "$busybox" ] || fail "the packages have no busybox"
    mkdir -p "$root/bin"
    cp "$busybox" "$root/bin/busybox"
    while read -r applet; do
        ln -sf busybox "$root/bin/$applet"
    done < <("$busybox" --list | grep -vx busybox)
}

archive() { # archive ROOT: the folder as an initramfs, the same bytes for the same files
    (cd "$1" && find . -mindepth 1 -print0 | LC_ALL=C sort -z |
        cpio --quiet --null --create --format=newc --owner=+0:+0 --reproducible)
}

# What the folder holds, without times: the image is made again when this changes, and only then.
key_of() { # key_of ROOT
    (cd "$1" && find . -mindepth 1 -printf '%p %y %m %l\n' | LC_ALL=C sort &&
        find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum) | sha256sum
}
