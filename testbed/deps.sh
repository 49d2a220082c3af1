#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Installs the Debian packages that PMUvisor's build, runs and tests need and that are missing.
# Usage: deps.sh [--ask] [GROUP ...], of: build run kvm check more deb full bench trace docs lint
# sign
# Default: build run. --ask: not before somebody at the terminal says so. Either way a line says
# first how many packages that is, and their size. When nothing is missing this only asks dpkg.
# Without root or sudo it prints the command and fails. Elsewhere than on Debian it says what is
# needed, and what is missing will say so itself.
set -euo pipefail

declare -A group=(
    # The EFI image, the guest's programs and kernel module (its objtool uses libelf), the emulator.
    [build]="make gcc g++ libc6-dev libelf-dev linux-libc-dev binutils gnu-efi nasm xz-utils cpio \
lz4 zstd python3 patch"
    # Firmware, ACPI tables and the boot disk.
    [run]="ovmf seabios acpica-tools grub-efi-amd64-bin grub-common mtools dosfstools
        ca-certificates"
    # QEMU/KVM, where nested VMX works.
    [kvm]="qemu-system-x86 ovmf"
    # The tests' frame, unit tests, the QEMU tests and their disks, the model checker, the fuzz
    # targets, static analysis, traces in CTF, operands of traced instructions, pictures of a trace,
    # the browser that opens the traces' pages and its driver, signatures, the decoder of Intel PT,
    # the check of the workflows.
    [check]="libcmocka-dev python3-pytest python3-pytest-xdist babeltrace2 python3-bt2
        python3-capstone python3-jinja2 python3-matplotlib python3-scipy qemu-system-x86 e2fsprogs
        sbsigntool openssl spin clang libipt-dev libclang-rt-dev
        clang-tidy clang-format-19 cppcheck black shfmt
        chromium-driver python3-selenium python3-jsonschema python3-yaml"
    # Signatures for Secure Boot: make install and make usb with SIGN_KEY.
    [sign]="sbsigntool"
    # The Debian package, and its checker.
    [deb]="debhelper lintian"
    # The measurements' plots and statistics. What the guest runs is fetched into the cache and not
    # installed.
    [bench]="python3-jinja2 python3-matplotlib python3-pytest python3-pytest-xdist python3-scipy"
    # Traces as CTF, written and read; operands of traced instructions.
    [trace]="babeltrace2 python3-bt2 cpio python3-capstone python3-jinja2"
    # Tests that MORE=1 runs: Debian's grub-reboot, and a network with a server on it.
    [more]="grub2-common dnsmasq-base iproute2"
    # Tests that FULL=1 alone runs: a new Debian of each release, firmware from Debian's source.
    [full]="debootstrap uuid-dev"
    # The pictures of docs/.
    [docs]="graphviz"
    # The second compiler and the linters (optional).
    [lint]="clang shellcheck"
)

ask=0
if [ "${1:-}" = --ask ]; then
    ask=1
    shift
fi
if [ $# -eq 0 ]; then
    set -- build run
fi
wanted=()
for name in "$@"; do
    if [ -z "${group[$name]:-}" ]; then
        echo "deps.sh: unknown group '$name', wanted one of: ${!group[*]}" >&2
        exit 2
    fi
    # Of all its lines; at the end of them read says that there is no more.
    read -rd '' -a words <<< "${group[$name]}" || true
    wanted+=("${words[@]}")
done
# Groups share packages: each is named once.
mapfile -t wanted < <(printf '%s\n' "${wanted[@]}" | awk '!seen[$0]++')

if ! command -v dpkg-query > /dev/null; then
    echo "deps.sh: not a Debian system (no dpkg-query), so nothing is installed; needed are, by" \
        "Debian's names: ${wanted[*]}" >&2
    exit 0
fi

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2> /dev/null |
    sed -n 's/^installed //p') || true
missing=()
for package in "${wanted[@]}"; do
    if ! grep -qxF -- "$package" <<< "$installed"; then
        missing+=("$package")
    fi
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi

install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends
    "${missing[@]}")
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    # A terminal may ask for the password, a script may not.
    if command -v sudo > /dev/null && { [ -t 0 ] || sudo -n true 2> /dev/null; }; then
        as_root=(sudo)
    else
        echo "deps.sh: packages are missing and this is neither root nor sudo; as root run:" \
            "apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
        exit 1
    fi
fi
if [ $ask -eq 1 ] && [ ! -t 0 ]; then
    echo "deps.sh: missing: ${missing[*]}; nobody is here to ask, so install them: apt-get" \
        "install ${missing[*]}" >&2
    exit 1
fi
# What apt would install and fetch, in a line; nothing where its lists do not know a package.
cost() {
    LC_ALL=C apt-get -o Debug::NoLocking=1 --assume-no --no-install-recommends install \
        "${missing[@]}" 2> /dev/null | sed -n 's/^.* upgraded, \([0-9]* newly installed\).*/\1/p
            s/^Need to get \(.*\) of archives.*/\1 to fetch/p
            s/^After this operation, \(.*\) of additional.*/\1 on the disk/p' | paste -s -d , |
        sed 's/,/, /g'
}
# The lists are fetched only when they cannot answer: a stale list is the usual reason of a failure.
price=$(cost) || true
if [ -z "$price" ]; then
    "${as_root[@]}" apt-get update >&2
    price=$(cost) || true
fi
if [ $ask -eq 1 ]; then
    read -rp "deps.sh: install ${missing[*]} (${price:-size unknown})? [y/N] " answer
    [[ $answer == [yY]* ]] || {
        echo "deps.sh: nothing is installed; missing: ${missing[*]}" >&2
        exit 1
    }
fi
echo "deps.sh: installing (${price:-size unknown}) ${missing[*]}" >&2
if ! "${as_root[@]}" "${install[@]}" >&2; then
    "${as_root[@]}" apt-get update >&2
    "${as_root[@]}" "${install[@]}" >&2
fi
