# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034 # others read these
# layout.sh: where the partitions of the outer system's disk are, in sectors. Sourced by build.sh,
# read by nested.py. The third one is a volume of disk.sh's for QEMU's machine: firmware looks at
# its first sectors and at its last without opening it, so that both are the same for all jobs.

outer_boot_first=2048
outer_boot_sectors=65536
outer_root_first=67584
outer_root_sectors=163840
outer_job_first=231424
outer_job_sectors=196608
outer_job_reserved=1024
outer_job_tail=1024
# Whole cylinders of 16 heads and 63 sectors.
outer_sectors=$(((outer_job_first + outer_job_sectors + 1007) / 1008 * 1008))
