#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds what a bare machine needs to measure all columns, and prints the folder that it is in:
# vmlinuz (Debian's kernel), initrd.img (the guest's programs, the storage drivers and auto.sh as
# PID 1), kernel.bzImage, build.txt (what built them). Usage: build.sh [cloud|stock] (default:
# stock, which has the drivers of real machines' disks). REAL=0: without the large real programs.
# kernel.bzImage and pmuvisor.efi are made before.
set -euo pipefail

fail() {
    echo "auto/build.sh: $*" >&2
    exit 1
}

flavour=${1:-stock}
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
out=$top/build/auto/$flavour
test_kernel=${TEST_KERNEL:-$top/build/kernel.bzImage}
# shellcheck source=programs/payload/parts.sh
. "$top/programs/payload/parts.sh"
[ -r "$test_kernel" ] || fail "cannot read $test_kernel; build it first: make test-kernel"
mapfile -t kernel < <("$top/programs/kernel.sh" "$flavour")
[ ${#kernel[@]} -eq 2 ] || fail "no kernel for flavour '$flavour' (see above)"
modules=${kernel[1]}
images=("$("$top/programs/payload/build.sh" --kvm "$flavour")"
    "$("$top/programs/payload/build.sh" --bench "$flavour")")
# All of the real programs take 25 MiB more, and each start as much longer.
[ "${REAL:-1}" -eq 0 ] || images+=("$("$top/programs/payload/build.sh" --real "$flavour")")
own_module=$("$top/programs/module/build.sh" "$flavour")

# Disks of PCs and servers, sticks, keyboards for the stick's shell, and the file system of an EFI
# system partition. One that the kernel lacks or has built in is left out.
drivers=(nvme vmd ahci ata_piix ata_generic virtio_pci virtio_blk virtio_scsi sd_mod xhci_pci
    ehci_pci usb_storage uas sdhci_pci sdhci_acpi mmc_block ufshcd_pci mpi3mr megaraid_sas mpt3sas
    smartpqi hpsa aacraid isci pm80xx mvsas arcmsr mptsas mptspi vmw_pvscsi hv_storvsc usbhid
    hid_generic vfat nls_cp437 nls_ascii nls_iso8859_1)

mkdir -p "$out"
root=$(mktemp -d "$out/.root.XXXXXX")
trap 'rm -rf "$root" "$out/.new"' EXIT

for image in "${images[@]}"; do
    case $(head -c 6 "$image") in
        07070?) cat "$image" ;;
        *) lz4 -qdc "$image" ;;
    esac | (cd "$root" && cpio --quiet --extract --make-directories --unconditional)
done

# The file of a module, whose name may be written with - or _; nothing where it is built in.
module_file() { # module_file NAME
    find "$modules" -name "${1//[_-]/[_-]}.ko*" -print -quit
}

# A module's own list of what it needs, as modinfo would print it.
depends() { # depends FILE.ko
    grep -azo '^depends=.*' "$1" | tr '\0,' '[\n*]' | sed 's/^depends=//'
}

declare -A added=()
order=$root/lib/modules/storage.order
add_with_needs() { # add_with_needs NAME
    local name=${1//-/_} file need
    [ -z "${added[$name]:-}" ] || return 0
    added[$name]=1
    file=$(module_file "$name")
    [ -n "$file" ] || return 0
    file=$(basename "$file")
    file=${file%%.ko*}
    add_module "$root" "$modules" "$file"
    while read -r need; do
        [ -z "$need" ] || add_with_needs "$need"
    done < <(depends "$root/lib/modules/$file.ko")
    echo "$file" >> "$order"
}
: > "$order"
for driver in "${drivers[@]}"; do
    add_with_needs "$driver"
done
cp "$(dirname "$own_module")"/*.ko "$root/lib/modules/"

mkdir -p "$root/lib/auto"
cp "$here"/{jobs,facts,processor}.sh "$top"/bench/columns.{sh,txt} "$root/lib/auto/"
install -m 755 "$top/programs/measure/measure.sh" "$root/lib/auto/measure.sh"
install -m 755 "$here/auto.sh" "$root/auto"
install -m 755 "$here/shell.sh" "$root/jobs/shell"
check=$top/build/pmuvisor-check
[ ! -x "$check" ] || install -m 755 "$check" "$root/bin/pmuvisor-check"

key=$(key_of "$root")
if [ ! -e "$out/initrd.img" ] || [ "$(cat "$out/initrd.key" 2> /dev/null)" != "$key" ]; then
    archive "$root" | lz4 -q -l -9 > "$out/.new"
    mv "$out/.new" "$out/initrd.img"
    echo "$key" > "$out/initrd.key"
fi
cp -L --update "${kernel[0]}" "$out/vmlinuz"
cp -L --update "$test_kernel" "$out/kernel.bzImage"
version=$(git -C "$top" describe --always --dirty --tags 2> /dev/null) || version=unknown
compiler=$("${CC:-gcc}" --version | head -n 1 | tr -d '"')
printf 'env: %s="%s"\n' version "$version" compiler "$compiler" > "$out/build.txt"
echo "$out"
