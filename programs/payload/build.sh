#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds the guest's initramfs for one kernel flavour and prints the path of the image.
# Usage: build.sh [--tools | --perf | --kexec | --bench | --kvm | --kvm-small | --kvm-bench |
#    --NAME | --kvm-NAME] [--host SUITE] [cloud|stock]    (default: $GUEST, else cloud)
# The modules in it are the kernel's own.
#   --tools  the image for the tests: also perf, and the project's own kernel modules
#   --perf   the small image, perf, and the drivers of the uncore's and the C-states' PMUs
#   --kexec  the small image, and in it this kernel and the small image for the job kexec
#   --bench  the image for the measurements: also perf, busybox, nginx, wrk, and what each script
#            root.sh of a folder of programs/ or of experiments/*/guest/ adds. Such a script is given
#            the folder that becomes the guest's root: a program /jobs/NAME in it is the job NAME for the kernel command line's
#            pmv.run=NAME (init.c runs it with the console as its output). The image is made again
#            when a file in it changes, so that a script may build what it likes.
#   --NAME   an experiment's own image: experiments/*/guest/images.sh, which this sources, has the
#            function fill_NAME, which fills $root
#   --kvm    the image for the measurements under KVM: also the kernel's own KVM, the launcher of
#            programs/kvm/, and the test kernel ($TEST_KERNEL, else build/kernel.bzImage) for its
#            guest
#   --kvm-small, --kvm-bench, --kvm-NAME  the same with Linux for the guest: this kernel, and the
#            small image, that of --bench or that of --NAME
#   --host   of these and --perf: the kernel that the image is booted with, and whose modules (KVM)
#            it has, is that of another suite (kernel.sh --suite); its guest's stays this one. No
#            other image has it: modules for Debian 13's kernels want gcc 14, which 12 has not
set -euo pipefail

fail() {
    echo "payload/build.sh: $*" >&2
    exit 1
}

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
for images in "$top"/experiments/*/guest/images.sh; do
    # shellcheck source=/dev/null
    [ ! -e "$images" ] || . "$images"
done
variant=small
case ${1:-} in
    --tools | --perf | --kexec | --bench | --kvm | --kvm-small | --kvm-bench) variant=${1#--} ;;
    --*)
        variant=${1#--}
        declare -F "fill_${variant#kvm-}" > /dev/null ||
            fail "unknown option '$1', wanted --tools, --perf, --kexec, --bench, --kvm, --kvm-small," \
                "--kvm-bench or an experiment's: $(declare -F | sed -n 's/^declare -f fill_/--/p' | xargs)"
        ;;
esac
[[ ${1:-} != --* ]] || shift
host=()
if [ "${1:-}" = --host ]; then
    [[ $variant == kvm* || $variant == perf ]] ||
        fail "--host is for --kvm images and --perf alone, found --$variant"
    host=(--suite "${2:-}")
    shift 2
fi
flavour=${1:-${GUEST:-cloud}}
out=$top/build/payload
# shellcheck source=programs/payload/parts.sh
. "$here/parts.sh"
mapfile -t kernel < <("$top/programs/kernel.sh" "$flavour")
[ ${#kernel[@]} -eq 2 ] || fail "no kernel for flavour '$flavour' (see above)"
mapfile -t host_kernel < <("$top/programs/kernel.sh" "${host[@]}" "$flavour")
[ ${#host_kernel[@]} -eq 2 ] || fail "no kernel of ${host[*]} for flavour '$flavour' (see above)"
modules=${host_kernel[1]}

inner=''
case $variant in
    kexec | kvm-small) inner=$("$here/build.sh" "$flavour") ;;
    kvm-*) inner=$("$here/build.sh" "--${variant#kvm-}" "$flavour") ;;
esac
loop_rounds=1000000
access_rounds=10000
access_flushes=1000
defines=("-DLOOP_ROUNDS=$loop_rounds" "-DACCESS_ROUNDS=$access_rounds"
    "-DACCESS_FLUSHES=$access_flushes")
cc=${CC:-gcc}
warnings=(-std=gnu11 -Wall -Wextra -Werror -static)
mkdir -p "$out"
# Boots are made several at once, and the parts are shared.
exec 9> "$out/.lock"
flock 9
root=$(mktemp -d "$out/.root.XXXXXX")
image=$out/${variant/small/initrd}${host:+-${host[1]}}-$flavour.img
trap 'rm -rf "$root" "$root.new"' EXIT

# init and the small programs that every image has.
fill_small() {
    local -a sources=("$here"/*.c "$top"/programs/{command_line,measure/statistics}.c)
    local -a headers=("$here"/*.h "$top/programs/command_line.h" "$top"/include/{hypercall,options}.h
        "$top"/programs/measure/{region,statistics}.h)
    if ! newer_than "$out/init" "${sources[@]}" "${headers[@]}" "$here/build.sh"; then
        "$cc" "${warnings[@]}" -O2 "${defines[@]}" -I "$here" -I "$top/programs" -I "$top/include" \
            -s -o "$out/init" "${sources[@]}"
    fi
    for name in loop access; do
        if ! newer_than "$out/$name" "$here/$name.asm" "$here/build.sh"; then
            nasm -f elf64 "${defines[@]}" -o "$out/$name.o" "$here/$name.asm"
            ld -s -o "$out/$name" "$out/$name.o"
        fi
    done
    mkdir -p "$root"/{dev,proc,sys,tmp}
    cp "$out/init" "$out/loop" "$out/access" "$root/"
    add_module "$root" "$modules" msr
    add_module "$root" "$modules" efivarfs
}

fill_perf() {
    fill_small
    add_perf
    add_module "$root" "$modules" intel-cstate
    add_module "$root" "$modules" intel-uncore
}

# Debian's perf and the workload that it samples.
add_perf() {
    # Its functions are what is measured: none may be inlined or lose its frame pointer.
    if ! newer_than "$out/listing2" "$here/profile/listing2.c" "$here/build.sh"; then
        "$cc" "${warnings[@]}" -O0 -fno-omit-frame-pointer -fno-inline -fno-pie \
            -o "$out/listing2" "$here/profile/listing2.c"
    fi
    cp "$out/listing2" "$root/"
    packages=$("$top/programs/workloads/fetch.sh")
    add_program "$root" "$packages" usr/bin/perf
}

fill_tools() {
    local own_module
    own_module=$("$top/programs/module/build.sh" "$flavour")
    fill_small
    add_perf
    add_busybox "$root" "$packages"
    "$top/programs/workloads/root.sh" "$root"
    cp "$(dirname "$own_module")"/*.ko "$root/lib/modules/"
}

fill_kexec() {
    fill_small
    mkdir "$root/kexec"
    cp "${kernel[0]}" "$root/kexec/vmlinuz"
    cp "$inner" "$root/kexec/initrd"
}

# KVM's modules need each other and irqbypass.
fill_launcher() {
    local launcher module
    launcher=$("$top/programs/kvm/build.sh")
    fill_small
    for module in irqbypass kvm kvm-intel; do
        add_module "$root" "$modules" "$module"
    done
    cp "$launcher" "$root/launch"
}

fill_kvm() {
    local test_kernel=${TEST_KERNEL:-$top/build/kernel.bzImage}
    [ -r "$test_kernel" ] || fail "cannot read $test_kernel; build it first: make test-kernel"
    fill_launcher
    cp "$test_kernel" "$root/kernel.bzImage"
}

# With Linux as the guest. The inner image is built before the lock is taken.
fill_inner() {
    fill_launcher
    mkdir "$root/kvm"
    cp "${kernel[0]}" "$root/kvm/vmlinuz"
    cp "$inner" "$root/kvm/initrd"
}

fill_bench() {
    local script
    fill_small
    add_perf
    add_busybox "$root" "$packages"
    add_program "$root" "$packages" usr/sbin/nginx
    add_program "$root" "$packages" usr/bin/wrk
    for script in "$top"/programs/*/root.sh "$top"/experiments/*/guest/{,*/}root.sh; do
        if [ -x "$script" ]; then
            "$script" "$root"
        fi
    done
}

case $variant in
    kvm-*) fill_inner ;;
    *) "fill_$variant" ;;
esac
key=$(key_of "$root")
if [ ! -e "$image" ] || [ "$(cat "$image.key" 2> /dev/null)" != "$key" ]; then
    # A small image stays as it is: reading it is cheaper in an emulator than unpacking it.
    if [[ $variant == small || $variant == k* ]]; then
        archive "$root" > "$root.new"
    else
        archive "$root" | lz4 -q -l -9 > "$root.new"
    fi
    mv "$root.new" "$image"
    echo "$key" > "$image.key"
fi
echo "$image"
