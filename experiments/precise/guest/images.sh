# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# images.sh: this experiment's images, for programs/payload/build.sh, which sources it.

# That of the tests, and the job pebs with its programs.
fill_precise() {
    fill_tools
    "$top/experiments/precise/guest/root.sh" "$root"
}
