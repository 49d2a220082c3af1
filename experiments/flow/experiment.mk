# SPDX-License-Identifier: BSD-2-Clause
#
# The trace of exits, and its demo; included by the Makefile, so paths are from the top.
#
#   make trace [TRACE_CPUS=N]   boots Linux under trace=flow with a load, and writes what its trace
#                               tells to build/trace-demo/: the trace, CTF, Chrome's JSON, a page

NEEDS_flow = shared
# What runs where a level changes.
$(addprefix $(BUILD)/experiments/flow/hypervisor/,experiment.o level.o): private CFLAGS += $(SMALL)

SHORT_BOOTS += experiments/flow/tests/test_trace_kernel.py::test_exits
TRACE_CPUS ?= 1
TRACE_OUT ?= $(BUILD)/trace-demo

.PHONY: trace trace-all
DEMOS += trace
trace-all: $(LAB)
	@$(PYTHON) -m experiments.flow.analysis.demo --cpus $(TRACE_CPUS) $(TRACE_OUT)

# The loads, and a trace of the KVM that runs one (guest/loads/).
FLOW_LOADS = experiments/flow/guest/loads
PROGRAM_flowcost = $(FLOW_LOADS)/flowcost.c $(addprefix programs/payload/,processors.c support.c) \
    programs/command_line.c
PROGRAM_pair = $(FLOW_LOADS)/pair.c programs/payload/support.c
PROGRAM_ktrace = $(FLOW_LOADS)/ktrace.c programs/payload/support.c programs/command_line.c \
    experiments/shared/guest/hand_over.c
IMAGE_flowloads = $(IMAGE_initrd) disk:ata_piix disk:sd_mod $(foreach name,flowcost pair,jobs/$(name)=$(BUILD)/programs/$(name))
# The measurements on a bare machine have its loads, too.
IMAGE_bench += jobs/flowcost=$(BUILD)/programs/flowcost
KVM_flowloads = jobs/ktrace=$(BUILD)/programs/ktrace

# Several machines, and machines in one of them (pmv.kvm_machines=).
PACKAGES_sysbench = sysbench
DEBIAN_sysbench = usr/bin/sysbench
IMAGE_flowmachine = $(IMAGE_initrd) busybox jobs/sysbench=$(FLOW_LOADS)/sysbench.sh $(KVM_flowloads) \
    workloads/common.sh=programs/workloads/common.sh .=$(BUILD)/debian/sysbench
IMAGE_flowmachines = $(IMAGE_flowmachine) $(call inner,flowmachine)
KVM_flowmachine = $(KVM_flowloads)
KVM_flowmachines = $(KVM_flowloads)
# Several machines that share too few processors; and too little memory.
IMAGE_flowcluster = $(IMAGE_initrd) busybox jobs/cluster=$(FLOW_LOADS)/cluster.sh $(KVM_flowloads) \
    workloads/common.sh=programs/workloads/common.sh
KVM_flowcluster = $(KVM_flowloads)
PROGRAM_eatmem = $(FLOW_LOADS)/eatmem.c programs/payload/support.c programs/command_line.c
IMAGE_flowmemory = $(IMAGE_initrd) $(KVM_flowloads) jobs/eatmem=$(BUILD)/programs/eatmem
KVM_flowmemory = $(KVM_flowloads) busybox disk:lzo-rle disk:zram jobs/eatmem=$(BUILD)/programs/eatmem \
    jobs/overcommit=$(FLOW_LOADS)/overcommit.sh workloads/common.sh=programs/workloads/common.sh

# The jobs flowdemo, with the guest's tool, and flowtruth.
FLOW_GUEST = experiments/flow/guest
PROGRAM_flowtrace = $(sort $(wildcard $(FLOW_GUEST)/*.c)) \
    $(addprefix experiments/shared/guest/,hypervisor.c ring_reader.c trace_file.c traced_rings.c)
PROGRAM_flowdemo = $(FLOW_GUEST)/demo/main.c \
    $(addprefix experiments/shared/guest/,hand_over.c print_file.c hypervisor.c) programs/command_line.c
PROGRAM_flowtruth = $(sort $(wildcard $(FLOW_GUEST)/truth/*.c)) \
    $(addprefix experiments/shared/guest/,hypervisor.c hand_over.c)
IMAGE_flowdemo = $(IMAGE_initrd) $(foreach name,flowtrace flowdemo,jobs/$(name)=$(BUILD)/programs/$(name))
IMAGE_flowtruth = $(IMAGE_initrd) jobs/flowtruth=$(BUILD)/programs/flowtruth
# The same under perf's trace by Intel PT, and the decoder of it.
IMAGE_flowpt = $(IMAGE_tools) traced=$(BUILD)/programs/traced jobs/flowtruth=$(BUILD)/programs/flowtruth \
    jobs/flowpt=$(FLOW_GUEST)/pt/flowpt.sh
$(BUILD)/libipt_tables: experiments/flow/tests/libipt_tables.c tests/e2e/libipt_trace.h
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -std=gnu11 -O2 $(WARNINGS) -I. -o $@ $< -lipt
# KVM in KVM in KVM: the test kernel is the guest's guest's guest (pmv.kvm=kvm+kvm).
IMAGE_flowdeep = $(WITH_KVM) kvm/vmlinuz=$(IMAGES)/vmlinuz-% kvm/initrd=$(IMAGES)/kvm-%.img
