# SPDX-License-Identifier: BSD-2-Clause
#
# The pages that are made of something; included by tests/tests.mk, so paths are from the top.
#
#   make docs        asks before it installs what is missing; option pages from boot/option_table.h, pictures from their texts,
#                    the table of kernels from tests/e2e/kernels.py

.PHONY: docs
docs:
	@testbed/deps.sh --ask docs
	@docs/options.py
	@docs/differences.py
	@docs/pictures.py
