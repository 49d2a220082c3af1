# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# static.sh: how a build.sh makes static programs for the guest. To be sourced, with $here, the
# folder of the sources, $top, the project's, and $out, where the programs go. $CC: gcc.

mkdir -p "${out:?}"
# Whole or not at all: two boots may be made at once.
new=$out/.new.$$
trap 'rm -f "$new"' EXIT
shopt -s nullglob
experiments=("${top:?}"/experiments/*/hypervisor)
shopt -u nullglob

compile() { # compile PROGRAM SOURCE-OR-OPTION...: prints the program's path
    local program=$out/$1
    shift
    "${CC:-gcc}" -std=gnu11 -O2 -Wall -Wextra -Werror -static -o "$new" -I "${here:?}" "$@" \
        -I "${top:?}/include" -I "$top" "${experiments[@]/#/-I}"
    mv "$new" "$program"
    echo "$program"
}
