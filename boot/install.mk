# SPDX-License-Identifier: BSD-2-Clause
#
# Onto an EFI system partition, and back from it; included by tests/tests.mk.
#
#   make install ESP=DIR [KERNEL=FILE INITRD=FILE]   the hypervisor, a kernel, the boot menu, and an
#                     entry for each column of the measurements
#     BENCH=auto      the next boots of that menu measure all columns, one after another
#     BENCH=none      without the measurements
#     GUEST=stock|cloud   the kernel that measures (default: stock, which has real disks' drivers)
#   make collect ESP=DIR   results.json and report.html of the results that are there, in
#                     bench/out/metal (COLLECT_OUT=)

BENCH ?=
COLLECT_OUT ?= $(BENCH_OUT)/metal
# tests.mk sets GUEST for the emulator, where nobody did.
INSTALL_GUEST = $(if $(filter file,$(origin GUEST)),stock,$(GUEST))
INSTALL_DEPENDENCIES = $(if $(filter none,$(BENCH)),build,build bench)

.PHONY: install install-parts collect
install:
	@case "$(BENCH)" in '' | auto | none) ;; \
	    *) echo "make install: BENCH=$(BENCH), wanted auto or none" >&2; exit 1 ;; esac
	@testbed/deps.sh $(INSTALL_DEPENDENCIES)
	@$(MAKE) --no-print-directory install-parts

install-parts: $(EFI) $(if $(filter none,$(BENCH)),,$(TEST_KERNEL))
	@if [ "$(BENCH)" = none ]; then \
	    boot/install.sh "$(ESP)" $(EFI) $(KERNEL) $(INITRD); \
	else \
	    parts=$$(TEST_KERNEL=$(TEST_KERNEL) programs/auto/build.sh $(INSTALL_GUEST)) && \
	    boot/install.sh --bench "$$parts" $(if $(filter auto,$(BENCH)),--auto) \
	        "$(ESP)" $(EFI) $(KERNEL) $(INITRD); \
	fi

collect:
	@testbed/deps.sh bench
	@boot/collect.sh "$(ESP)" "$(COLLECT_OUT)"
