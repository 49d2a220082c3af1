# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# images.sh: this experiment's images, for programs/payload/build.sh, which sources it.

# All of the real programs, of which --bench has gzip and glpsol.
fill_real() {
    fill_small
    add_perf
    add_busybox "$root" "$packages"
    "$top/experiments/counters/guest/real/root.sh" "$root" all
}
