# SPDX-License-Identifier: BSD-2-Clause
#
# Included by the Makefile, so paths are from the top. It needs no other experiment.
NEEDS_example =
