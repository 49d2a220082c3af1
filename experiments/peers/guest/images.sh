# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# images.sh: this experiment's images, for programs/payload/build.sh, which sources it.

# That of the tests, and the measurements at CPL 0 as the job measure.
fill_peers() {
    fill_tools
    mkdir -p "$root/lib/auto"
    install -m 755 "$top/programs/measure/measure.sh" "$root/lib/auto/measure.sh"
    install -m 755 "$top/experiments/peers/guest/measure.sh" "$root/jobs/measure"
}
