#!/bin/busybox sh
# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=dash
# The job `measure`: every measurement at CPL 0 (programs/measure/) in this kernel, so that what is
# below the kernel need not start the test kernel.
set -u

status=0
for experiment in msr exit pmi a1k; do
    /lib/auto/measure.sh "$experiment" || status=1
done
exit "$status"
