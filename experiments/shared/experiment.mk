# SPDX-License-Identifier: BSD-2-Clause
#
# What the unit tests here ask for; included by the Makefile, so paths are from the top.

EXPERIMENT_UNIT_SOURCES += $(addprefix experiments/shared/guest/,ring_reader.c trace_file.c)
