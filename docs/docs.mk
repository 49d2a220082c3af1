# SPDX-License-Identifier: BSD-2-Clause
#
# The pages that are made of something; included by tests/tests.mk, so paths are from the top.
#
#   make docs        asks before it installs what is missing; option pages from boot/option_table.h,
#                    figures from docs/figures.ini and results/, the table of kernels from tests/e2e/kernels.py,
#                    pictures from their texts, the list of an exit in docs/tour.md from a run
#                    in the emulator

.PHONY: docs
docs:
	@testbed/deps.sh --ask docs
	@docs/options.py
	@$(PYTHON) -m docs.figures_page
	@$(PYTHON) -m docs.differences
	@docs/pictures.py
	@$(MAKE) --no-print-directory exit-lines REASON=CPUID PAGE=docs/tour.md
