# SPDX-License-Identifier: BSD-2-Clause
#
# What the unit tests of this experiment ask for; included by the Makefile, so paths are from the top.

EXPERIMENT_UNIT_SOURCES += experiments/branches/guest/list.c experiments/branches/guest/output.c
