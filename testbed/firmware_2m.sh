#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Builds Debian 13's OVMF as an image of 2 MiB, which Debian ships of OVMF 2022.11 alone, from
# Debian's source package edk2; apt checks its hashes against Debian's signature. The options are
# those of Debian's image without Secure Boot (debian/rules), but for network, TPM and measured
# boot, which make the image larger and the build longer. Takes some 10 minutes on two processors
# and 1.5 GB of disk; touches only the cache folder. Prints the image's name.
# Usage: firmware_2m.sh [--update]
set -euo pipefail

fail() {
    echo "firmware_2m.sh: $*" >&2
    exit 1
}

case $* in
    '' | --update) ;;
    *) fail "found '$*', wanted nothing or --update" ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=programs/suite.sh
. "$here/../programs/suite.sh"
cache=${PMUVISOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pmuvisor}/firmware/trixie-2M
image=$cache/OVMF_2M.fd
mkdir -p "$cache"
exec 9> "$cache/lock"
flock 9

# In the folder $1, which is empty. edksetup.sh wants no arguments, and variables that are not set.
build_image() (
    set +u
    cd "$1"
    export PYTHON_COMMAND=/usr/bin/python3 PYTHON3_ENABLE=TRUE
    unset WORKSPACE EDK_TOOLS_PATH CONF_PATH PACKAGES_PATH ELF_PACKAGE_METADATA
    set --
    # shellcheck disable=SC1091 # the source package's
    . ./edksetup.sh &&
        make -C BaseTools/Source/C -j "$(nproc)" &&
        build -a X64 -t GCC5 -p OvmfPkg/OvmfPkgX64.dsc -b RELEASE -n "$(nproc)" -q \
            -D FD_SIZE_2MB -D NETWORK_ENABLE=FALSE --pcd PcdUninstallMemAttrProtocol=TRUE
)

if [ ! -r "$image" ] || [ $# -gt 0 ]; then
    for tool in patch nasm iasl g++ make /usr/bin/python3 /usr/include/uuid/uuid.h; do
        command -v "$tool" > /dev/null || [ -r "$tool" ] ||
            fail "$tool not found: run testbed/deps.sh build run full"
    done
    work=$(mktemp -d "$cache/.build.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    use_suite trixie "$cache/apt" deb-src
    echo "firmware_2m.sh: fetching Debian 13's source package edk2" >&2
    refresh_lists || true
    for part in --tar-only --diff-only; do
        (cd "$work" && apt-get "${apt[@]}" -o APT::Sandbox::User=root -q --download-only $part \
            source edk2 >&2) ||
            fail "cannot download the source package edk2 of trixie; check the network"
    done
    mkdir "$work/edk2"
    tar -x -C "$work/edk2" --strip-components=1 -f "$work"/edk2_*.orig.tar.xz
    tar -x -C "$work/edk2" -f "$work"/edk2_*.debian.tar.xz
    while read -r name; do
        patch -d "$work/edk2" --strip=1 --batch --input="debian/patches/$name" >&2 ||
            fail "$name does not apply to $(ls "$work"/edk2_*.orig.tar.xz)"
    done < <(grep '^[^#]' "$work/edk2/debian/patches/series")
    # Which the image's list has without the network, too.
    sed -i '/VirtioNetDxe/d' "$work/edk2/OvmfPkg/OvmfPkgX64.fdf"
    echo "firmware_2m.sh: building OVMF, 2 MiB" >&2
    build_image "$work/edk2" > "$cache/build.log" 2>&1 ||
        fail "build of OVMF failed:" \
            "$(grep -m 1 -E '[: ]error[: ]' "$cache/build.log" || true) (see $cache/build.log)"
    mv "$work/edk2/Build/OvmfX64/RELEASE_GCC5/FV/OVMF.fd" "$image"
fi
echo "$image"
