#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Copies PMUvisor, a kernel with its initramfs, the boot menu and what measures all columns onto an
# EFI system partition. Touches only ESP/EFI/pmuvisor; files there that a user may have edited are
# kept, and so are results: those of another build are put aside, as bench.old.
set -euo pipefail

usage="usage: install.sh [options] ESP IMAGE [KERNEL [INITRD]]
  KERNEL, INITRD  default: the running kernel's own files; of a KERNEL the initrd of its release
  --bench DIR     the measurements, too: the folder of \`make build/auto/stock/build.txt\`
  --plan NAME     bench=NAME: the next boots of the menu measure this plan of bench/measurements.ini
  --key KEY --cert CERT   the image is signed with them (sign.sh)
  --append WORDS  the kernel's command line (default: the running system's own)
  --root DIR      another system than the running one: its newest kernel is taken
  --check         only say what is wrong with ESP
  --quiet         say nothing of how to go on"

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

bench='' plan='' root='' append='' check=0 quiet=0 key='' cert=''
while [[ ${1:-} == -* ]]; do
    case $1 in
        -h | --help) echo "$usage" && exit 0 ;;
        --bench | --plan | --append | --root | --key | --cert)
            [ $# -ge 2 ] || fail "$1 wants a value (see --help)"
            printf -v "${1#--}" '%s' "$2"
            shift
            ;;
        --check) check=1 ;;
        --quiet) quiet=1 ;;
        *) fail "unknown option '$1', wanted --bench or --plan (see --help)" ;;
    esac
    shift
done
esp=${1:-}
image=${2:-}
kernel=${3:-}
initrd=${4:-}
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=metal/kernels.sh
. "$here/kernels.sh"
[ -n "$esp" ] ||
    fail "no ESP given; say where the EFI system partition is mounted: make install ESP=/boot/efi"
[ -d "$esp" ] || fail "ESP: '$esp' is not a folder; mount the EFI system partition and name it"
[ -x "$esp" ] || fail "ESP: '$esp' cannot be entered; be root: sudo make install ESP=$esp"
[ -d "$esp/EFI" ] || [ -d "$esp/efi" ] ||
    fail "ESP: '$esp' has no folder EFI, so it is no EFI system partition;" \
        "usual places: /boot/efi, /efi"
[ -w "$esp/EFI" ] || [ -w "$esp/efi" ] || fail "ESP: '$esp' cannot be written; run as root"
[ $check -eq 0 ] || exit 0
[ -r "$image" ] || fail "cannot read '$image'; build it first: make"
[ -z "$key$cert" ] || "$here/sign.sh" "$key" "$cert" || exit 1
[ -z "$root" ] || [ -d "$root" ] || fail "--root: '$root' is not a folder"
[ -z "$root" ] || [ -n "$append" ] ||
    fail "--root wants --append, too: the running system's command line is of no use to another"
case $append in
    *[\'$'\n']*) fail "--append may not hold a single quote or a line end" ;;
esac
name_one="name one: KERNEL=FILE INITRD=FILE"
if [ -z "$kernel" ]; then
    there=$(releases "$root")
    if [ -z "$root" ]; then release=$(uname -r); else release=$(tail -n 1 <<< "$there"); fi
    kernel=$(kernel_of "$root" "${release:-none}") ||
        fail "no kernel of Linux ${release:-any release} in $root/boot or $root/lib/modules" \
            "(there: $(paste -s -d ' ' <<< "${there:-none}")); $name_one"
fi
[ -r "$kernel" ] || fail "cannot read the kernel '$kernel'; be root, or $name_one"
if [ -z "$initrd" ]; then
    : "${release:=$(release_of "$kernel")}"
    initrd=$(initrd_of "$root" "${release:-none}") ||
        fail "no initrd of Linux ${release:-of an unknown release} in $root/boot;" \
            "the kernel is '$kernel'; $name_one"
fi
[ -r "$initrd" ] || fail "cannot read the initrd '$initrd'; be root, or $name_one"
[ -n "$bench" ] || [ -z "$plan" ] || fail "--plan wants --bench DIR, too (see --help)"

target=$esp/EFI/pmuvisor
[ -n "$key" ] || [ ! -e "$target/pmuvisor.cer" ] ||
    fail "found a signed image in '$target', and firmware may start no other: give SIGN_KEY= and" \
        "SIGN_CERT= again, or for one without a signature remove pmuvisor.cer there"
# shellcheck disable=SC2034 # measurements.sh reads it
measurements_top=$here/..
# shellcheck source=bench/measurements.sh
. "$here/../bench/measurements.sh"
mapfile -t columns < <(column_names && part_names)
mapfile -t plans < <(plan_names)
[ -z "$plan" ] || [[ " ${plans[*]} " == *" $plan "* ]] ||
    fail "--plan: found '$plan', wanted one of: ${plans[*]}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/../testbed/menu.sh" > "$work/columns.cfg"
images=("$image")
names=(pmuvisor.efi)
if [ -n "$bench" ]; then
    for file in "$bench"/*.efi; do
        [ -e "$file" ] || continue
        images+=("$file")
        names+=("${file##*/}")
    done
fi
if [ -n "$key" ]; then
    for i in "${!images[@]}"; do
        "$here/sign.sh" "$key" "$cert" "${images[i]}" "$work/${names[i]}" "$target/${names[i]}" ||
            exit 1
        images[i]=$work/${names[i]}
    done
    # As firmware's setup and MokManager take it: in DER.
    sed -n '/^-----BEGIN CERT/,/^-----END/p;/^-----END CERT/q' "$cert" | sed '/^-----/d' |
        base64 -d > "$work/pmuvisor.cer"
fi
# pairs: a file, and its name below $target.
sources=("${images[@]}" "$kernel" "$initrd" "$here/../testbed/grub.cfg" "$work/columns.cfg")
names+=(vmlinuz initrd.img grub.cfg columns.cfg)
if [ -n "$key" ]; then
    sources+=("$work/pmuvisor.cer")
    names+=(pmuvisor.cer)
fi
if [ -n "$bench" ]; then
    for name in vmlinuz initrd.img kernel.bzImage build.txt; do
        [ -r "$bench/$name" ] ||
            fail "cannot read '$bench/$name'; build it: make build/auto/stock/build.txt"
        sources+=("$bench/$name")
        names+=("bench/$name")
    done
    # Of KVM with a kernel of its own.
    for file in "$bench"/vmlinuz-* "$bench"/initrd-*; do
        [ -e "$file" ] || continue
        sources+=("$file")
        names+=("bench/${file##*/}")
    done
    sources+=("$here/bench.cfg")
    names+=(bench/bench.cfg)
fi

# What is replaced makes room, too. A start leaves 330 KB where each job has all its repetitions
# (auto.sh), and a plan has up to 40 such starts.
results_bytes=$((16 << 20))
needed=$results_bytes
free=$(($(stat -f -c '%a * %S' "$esp")))
for i in "${!names[@]}"; do
    needed=$((needed + $(stat -L -c %s "${sources[i]}")))
    old=$target/${names[i]}
    [ ! -f "$old" ] || free=$((free + $(stat -c %s "$old")))
done
[ "$needed" -lt "$free" ] ||
    fail "ESP: $((needed >> 20)) MiB needed, $((free >> 20)) MiB free in '$esp'; make room there" \
        "${bench:+(BENCH=none leaves the measurements out)}"

# Results of two builds must not become one set.
is_other_build() {
    local i
    for i in "${!names[@]}"; do
        case ${names[i]} in
            bench/* | columns.cfg | *.efi)
                cmp -s "${sources[i]}" "$target/${names[i]}" || return 0
                ;;
        esac
    done
    return 1
}

# Nor of two plans.
is_other_plan() {
    [ -n "$plan" ] && [ -s "$target/bench/plan.cfg" ] &&
        ! grep -q -x "# plan $plan" "$target/bench/plan.cfg"
}

# Whatever a job, a start or a plan left; GRUB's blocks are made anew anyway.
put_results_aside() {
    local name old=$target/bench.old number=1 found=0
    while [ -e "$old" ]; do
        number=$((number + 1))
        old=$target/bench.old$number
    done
    rm -f "$target"/bench/*.env "$target"/bench/{plan.cfg,clock.txt,clock2.txt}
    for name in "$target"/bench/[0-9]*.*; do
        [ -n "$(find "$name" -type f -print -quit 2> /dev/null)" ] || continue
        found=1
        mkdir -p "$old"
        mv "$name" "$old/"
    done
    [ $found -eq 1 ] || return 0
    [ ! -e "$target/bench/build.txt" ] || cp "$target/bench/build.txt" "$old/"
    echo "Results of another build or plan are now in $old"
}

if [ -n "$bench" ] && { is_other_build || is_other_plan; }; then
    put_results_aside
fi
mkdir -p "$target${bench:+/bench}"
for i in "${!names[@]}"; do
    cp -L "${sources[i]}" "$target/${names[i]}"
done

# The running system's own command line is the best guess for the guest; GRUB's own words are not
# part of it.
words=$append command_line=()
[ -n "$append" ] || read -ra command_line < /proc/cmdline
for word in "${command_line[@]}"; do
    case $word in
        BOOT_IMAGE=* | initrd=* | *\'*) ;;
        *) words+="${words:+ }$word" ;;
    esac
done
if [ ! -e "$target/pmuvisor.cfg" ]; then
    printf '%s\n' '# Options of PMUvisor, one per line; append= is the kernel command line.' \
        "append=$words" > "$target/pmuvisor.cfg"
fi
if [ ! -e "$target/local.cfg" ]; then
    printf '%s\n' '# Sourced by grub.cfg beside it.' "set append='$words'" > "$target/local.cfg"
fi

# GRUB's environment block: 1024 bytes, padded with #. GRUB can write one, but not make it.
environment_block() {
    printf '%-1024s' $'# GRUB Environment Block\ntries=0\nwhy=\n' | tr ' ' '#' |
        sed '1s/.*/# GRUB Environment Block/'
}

if [ -n "$bench" ]; then
    # By the contents of this file the measuring kernel finds this partition among all others.
    if [ ! -s "$target/bench/id" ]; then
        od -A n -N 8 -t x8 /dev/urandom | tr -d ' ' > "$target/bench/id"
    fi
    echo "set bench_id=$(cat "$target/bench/id")" > "$target/bench/id.cfg"
    # Of the first round, which the menu knows without a plan; a plan makes the others.
    for name in "${columns[@]/#/1.}"; do
        mkdir -p "$target/bench/$name"
        environment_block > "$target/bench/$name.env"
    done
    for name in "$target"/bench/[0-9]*.env; do
        [ ! -e "$name" ] || environment_block > "$name"
    done
fi
# The two lines that this script writes, and takes back where they are as it wrote them. Before
# there were plans the second one was bench=auto.
remark='# Measure, until every column has its results.'
kept=$(sed "/^$remark\$/{N;/\nset bench=[a-z]*\$/d}" "$target/local.cfg")
[ -z "$plan" ] || kept+=$'\n'"$remark"$'\n'"set bench=$plan"
[ "$kept" = "$(cat "$target/local.cfg")" ] || printf '%s\n' "$kept" > "$target/local.cfg"
sync -f "$target"

[ $quiet -eq 0 ] || exit 0
cat << END
Installed in $target (kernel: $kernel, initrd: $initrd).
Kernel command line and options: $target/pmuvisor.cfg and local.cfg.
END
[ -z "$key" ] || cat << END
The image is signed. Where Secure Boot is on, the machine has to know its key, once:
    mokutil --import $target/pmuvisor.cer
or the firmware's setup; docs/metal.md, "Secure Boot", says how.
END
# What the image would say here, without a restart; of this system alone, and no reason to fail.
check=${PMUVISOR_CHECK:-$here/../build/pmuvisor-check}
if [ -z "$root" ] && [ -x "$check" ]; then
    verdict=$("$check" --brief --esp "$esp" 2>&1) || true
    echo "On this machine: $verdict"
fi
grub=$(grub_folder "$root")
if [ -n "$grub" ]; then
    # GRUB's own entries may use root as they find it: it is set back.
    reach='set pmv_was=$root
    search --no-floppy --set=root --file /EFI/pmuvisor/grub.cfg
    configfile /EFI/pmuvisor/grub.cfg
    set root=$pmv_was'
    if [ -n "$plan" ]; then
        echo "To have each boot measure, put these lines into $grub/custom.cfg:"
        echo "    $reach"
    else
        echo "To have its menu as an entry of this machine's own, put these lines into" \
            "$grub/custom.cfg:"
        echo "    menuentry PMUvisor {"
        echo "    $reach"
        echo "    }"
    fi
    [ ! -x "$here/guard.sh" ] ||
        echo "To have it fall back to the native entry after a start that hangs:" \
            "metal/guard.sh --install $esp"
else
    echo "This machine has no GRUB (no /boot/grub*/grub.cfg): start the menu from a stick," \
        "make usb."
fi
if [ -n "$plan" ]; then
    minutes=$(plan_word "$plan" minutes)
    takes="as long as its jobs take"
    [ -z "$minutes" ] || takes="$minutes minutes, firmware included"
    cat << END
Then restart: each boot measures one column, and after the last one this machine's own menu is back.
The plan $plan takes $takes; the first boot says how.
A power cut loses nothing; $target/bench/NAME.txt are the results.
To see them as tables and plots, also before all are there:
    make collect ESP=$esp
To measure once more, remove $target/bench and install again.
END
fi
