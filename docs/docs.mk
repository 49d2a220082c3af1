# SPDX-License-Identifier: BSD-2-Clause
#
# The pages that are made of something; included by tests/tests.mk, so paths are from the top.
#
#   make docs        option pages from boot/option_table.h, pictures from their texts

.PHONY: docs
docs:
	@testbed/deps.sh docs
	@docs/options.py
	@docs/pictures.py
