# SPDX-License-Identifier: BSD-2-Clause
#
# Included by the Makefile, so paths are from the top. The picture is of its tests' boots.
.PHONY: blocking

blocking:
	@DRAW=1 $(MAKE) --no-print-directory e2e T=blocking/
