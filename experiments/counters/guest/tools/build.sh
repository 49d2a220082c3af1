#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds an initramfs with tools that people use, and prints its path. Fetches packages into the
# cache, installs nothing. Usage: build.sh papi|perf [cloud|stock]
#   papi  Debian's PAPI: its utilities as they are, its own tests compiled from the sources of
#         papi-examples, and threads.c; an archive, and the small image after it
#   perf  the job multiplex, and after it the tests' image, which has perf
# What is compressed comes last: the kernel finds nothing after an image of lz4.
set -euo pipefail

fail() {
    echo "tools/build.sh: $*" >&2
    exit 1
}

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../../.." && pwd)
what=${1:-}
flavour=${2:-${GUEST:-cloud}}
out=$top/build/payload
image=$out/tools-$what-$flavour.img
# shellcheck source=programs/payload/parts.sh
. "$top/programs/payload/parts.sh"
case $what in
    papi) base=$("$top/programs/payload/build.sh" "$flavour") ;;
    perf) base=$("$top/programs/payload/build.sh" --tools "$flavour") ;;
    *) fail "unknown image '$what', wanted papi or perf" ;;
esac
packages=$("$top/programs/workloads/fetch.sh" papi-tools papi-examples libgomp1)
libraries=$packages/usr/lib/x86_64-linux-gnu
examples=$packages/usr/share/doc/papi-examples/examples
mkdir -p "$out"
exec 9> "$out/.tools.lock"
flock 9
if newer_than "$image" "$base" "$packages" "$here"/* "$top/programs/payload/parts.sh"; then
    echo "$image"
    exit 0
fi
root=$(mktemp -d "$out/.tools.XXXXXX")
trap 'rm -rf "$root" "$root.objects" "$root.new"' EXIT
mkdir -p "$root/jobs" "$root.objects"

# As the Makefiles of the examples have it: -O1 for the tests, -O2 for the loads of the validation.
flags=(-w -pthread -I "$packages/usr/include" -I "$examples/testlib" -I "$examples/validation_tests"
    -DPAPI_NUM_COMP=5)
link=(-s -L "$libraries" "-Wl,-rpath-link,$libraries" -lpapi -lpthread -lm)
cc=${CC:-gcc}

# What tests share, in one archive.
helpers() {
    local source objects=$root.objects
    for source in "$examples"/testlib/{test_utils,do_loops,clockcore}.c \
        "$examples"/ctests/prof_utils.c "$examples"/components/perf_event/tests/event_name_lib.c \
        "$examples"/validation_tests/{display_error,cache_helper,matrix_multiply,busy_work}.c \
        "$examples"/validation_tests/*_testcode.c; do
        "$cc" -O2 "${flags[@]}" -c -o "$objects/$(basename "$source" .c).o" "$source" ||
            fail "cannot compile $source"
    done
    ar rc "$objects/helpers.a" "$objects"/*.o
}

# One test, with the options that the Makefiles give it.
compile() { # compile NAME SOURCE [OPTION...]
    local name=$1 source=$2
    shift 2
    "$cc" -O1 "${flags[@]}" "$@" -o "$root/papi/$name" "$source" "$root.objects/helpers.a" \
        "${link[@]}" || fail "cannot compile the test $name; newer papi-examples? see papi.txt"
}

fill_papi() {
    local name source options program library folder mode
    mkdir -p "$root"/{papi,etc,usr/share}
    helpers
    while read -r name source options _; do
        case $name$source in
            '' | '#'* | *bin) continue ;;
        esac
        # shellcheck disable=SC2046 # words
        compile "$name" "$examples/$source.c" $([ "$options" = - ] || echo "${options//,/ }")
    done < "$here/papi.txt"
    compile threads "$here/threads.c" -Wall -Wextra -Werror
    for program in "$packages"/usr/bin/papi_*; do
        # One is a script for python, which is not here.
        [ "$(head -c 2 "$program")" = '#!' ] ||
            add_program "$root" "$packages" "usr/bin/${program##*/}"
    done
    for library in libm.so.6 libgomp.so.1 libdl.so.2 libpthread.so.0; do
        for folder in "$libraries" "$packages/lib/x86_64-linux-gnu"; do
            [ ! -e "$folder/$library" ] || cp -L "$folder/$library" "$root/lib/x86_64-linux-gnu/"
        done
    done
    cp -r "$packages/usr/share/papi" "$root/usr/share/"
    add_busybox "$root" "$("$top/programs/workloads/fetch.sh")"
    install -m 755 "$here/papi.sh" "$root/jobs/papi"
    cp "$here/papi.txt" "$root/papi/tests"
    for mode in overflow migrate; do
        printf '%s\n' '#!/bin/sh' 'echo 2 > /proc/sys/kernel/perf_event_paranoid' \
            "exec /papi/threads $mode" > "$root/jobs/$mode"
        chmod 755 "$root/jobs/$mode"
    done
}

fill_perf() {
    install -m 755 "$here/multiplex.sh" "$root/jobs/multiplex"
}

"fill_$what"
{
    archive "$root"
    cat "$base"
} > "$root.new"
mv "$root.new" "$image"
echo "$image"
