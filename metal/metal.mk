# SPDX-License-Identifier: BSD-2-Clause
#
# Onto an EFI system partition or a stick, and back from it; included by tests/tests.mk, where it is
# there.
#
#   make install ESP=DIR [KERNEL=FILE INITRD=FILE]   the hypervisor, a kernel, the boot menu, and an
#                     entry for each column of the measurements
#   make usb [KERNEL=FILE INITRD=FILE]   the same and GRUB, as the image of a stick for dd,
#                     build/pmuvisor-usb.img, and as a tree, build/usb
#     BENCH=auto      the next boots of that menu measure all columns, one after another
#     BENCH=none      without the measurements (install)
#     GUEST=stock|cloud   the kernel that measures (default: stock, which has real disks' drivers)
#   make collect ESP=DIR   results.json and report.html of the results that are there, in
#                     bench/out/metal (COLLECT_OUT=)
#   make pmuvisor-check   a program for Linux that says what the image would: metal/check/check.mk

include metal/check/check.mk

# The image that has the options on the volume; EXPERIMENTS="name ..." on the line: the one with these.
INSTALL_IMAGE = $(if $(filter command%,$(origin EXPERIMENTS)),$(LAB),$(shell \
    testbed/image.sh "$$(cat '$(ESP)/EFI/pmuvisor/pmuvisor.cfg' 2> /dev/null)" $(BUILD)))

BENCH ?=
COLLECT_OUT ?= $(BENCH_OUT)/metal
USB_IMAGE ?= $(BUILD)/pmuvisor-usb.img
USB_TREE ?= $(BUILD)/usb
# tests.mk sets GUEST for the emulator, where nobody did, and exports it: a second make is told.
INSTALL_GUEST = $(if $(filter file,$(origin GUEST)),stock,$(GUEST))
INSTALL_DEPENDENCIES = $(if $(filter none,$(BENCH)),build,build bench)
# The measurements are made of Debian's packages; elsewhere they are left out, or come by a stick.
OS_RELEASE ?= /etc/os-release
APT = $(shell . $(OS_RELEASE) 2> /dev/null; [ "$$ID" != debian ] || command -v apt-get)

.PHONY: install install-parts usb usb-parts collect
ifeq ($(APT)$(BENCH),)
install: BENCH = none
endif
install:
	@case "$(BENCH)" in '' | auto | none) ;; \
	    *) echo "make install: BENCH=$(BENCH), wanted auto or none" >&2; exit 1 ;; esac
	@[ -n "$(APT)" ] || [ "$(BENCH)" = none ] || { echo "make install: BENCH=$(BENCH) wants" \
	    "Debian's packages, and this is another system; make usb on a Debian machine makes a stick that" \
	    "measures" >&2; exit 1; }
	@testbed/deps.sh $(INSTALL_DEPENDENCIES)
	@$(MAKE) --no-print-directory install-parts BENCH=$(BENCH) INSTALL_GUEST=$(INSTALL_GUEST)

# pmuvisor-check is static, which other distributions may not have the libraries for.
install-parts: $(EFI) $(LAB) $(if $(filter none,$(BENCH)),,$(TEST_KERNEL)) $(if $(APT),$(CHECK_PROGRAM))
	@if [ "$(BENCH)" = none ]; then \
	    metal/install.sh "$(ESP)" $(INSTALL_IMAGE) "$(KERNEL)" "$(INITRD)"; \
	else \
	    parts=$$(TEST_KERNEL=$(TEST_KERNEL) metal/auto/build.sh $(INSTALL_GUEST)) && \
	    metal/install.sh --bench "$$parts" $(if $(filter auto,$(BENCH)),--auto) \
	        "$(ESP)" $(INSTALL_IMAGE) "$(KERNEL)" "$(INITRD)"; \
	fi

usb:
	@case "$(BENCH)" in '' | auto) ;; \
	    *) echo "make usb: BENCH=$(BENCH), wanted auto or nothing" >&2; exit 1 ;; esac
	@testbed/deps.sh build run
	@$(MAKE) --no-print-directory usb-parts INSTALL_GUEST=$(INSTALL_GUEST)

usb-parts: $(EFI) $(LAB) $(TEST_KERNEL) $(CHECK_PROGRAM)
	@parts=$$(TEST_KERNEL=$(TEST_KERNEL) metal/auto/build.sh $(INSTALL_GUEST)) && \
	metal/usb.sh --bench "$$parts" $(if $(BENCH),--auto) --tree $(USB_TREE) --out $(USB_IMAGE) \
	    $(INSTALL_IMAGE) $(KERNEL) $(INITRD)

collect:
	@testbed/deps.sh bench
	@metal/collect.sh "$(ESP)" "$(COLLECT_OUT)"
