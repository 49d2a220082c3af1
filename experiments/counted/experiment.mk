# SPDX-License-Identifier: BSD-2-Clause
#
# Included by the Makefile, so paths are from the top. What is kept and drawn is of its tests' boots.
.PHONY: counted

counted:
	@DRAW=1 FULL=1 $(MAKE) --no-print-directory e2e T=counted/
