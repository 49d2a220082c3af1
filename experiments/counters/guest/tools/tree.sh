# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154 # root, folder and packages are debian.sh's
# tree.sh: adds to a folder Debian's PAPI: its utilities as they are, its own tests compiled from
# the sources of papi-examples, and threads.c. Sourced by debian.sh.
here=experiments/counters/guest/tools
libraries=$packages/usr/lib/x86_64-linux-gnu
examples=$packages/usr/share/doc/papi-examples/examples
trap 'rm -rf "$root.objects"' EXIT
mkdir -p "$root"/{jobs,papi} "$root.objects"

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
        "${link[@]}" || fail "cannot compile the test $name; newer papi-examples? see papi.ini"
}

helpers
while read -r name source options _; do
    [ "$source" != bin ] || continue
    # shellcheck disable=SC2046 # words
    compile "$name" "$examples/$source.c" $([ "$options" = - ] || echo "${options//,/ }")
done < "${folder%/debian/*}/papi-tests.txt"
compile threads "$here/threads.c" -Wall -Wextra -Werror
for program in "$packages"/usr/bin/papi_*; do
    # One is a script for python, which is not here.
    [ "$(head -c 2 "$program")" = '#!' ] ||
        add_program "$root" "$packages" "usr/bin/${program##*/}"
done
for library in libm.so.6 libgomp.so.1 libdl.so.2 libpthread.so.0 libgcc_s.so.1 libcrypt.so.1; do
    for place in "$libraries" "$packages/lib/x86_64-linux-gnu"; do
        [ ! -e "$place/$library" ] || cp -L "$place/$library" "$root/lib/x86_64-linux-gnu/"
    done
done
# A test asks for it by the name that it has for the linker.
ln -s libcrypt.so.1 "$root/lib/x86_64-linux-gnu/libcrypt.so"
for mode in overflow migrate; do
    printf '%s\n' '#!/bin/sh' 'echo 2 > /proc/sys/kernel/perf_event_paranoid' \
        "exec /papi/threads $mode" > "$root/jobs/$mode"
    chmod 755 "$root/jobs/$mode"
done
