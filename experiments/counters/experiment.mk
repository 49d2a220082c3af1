# SPDX-License-Identifier: BSD-2-Clause
#
# Included by the Makefile, so paths are from the top. The jobs accuracy and, of the same program,
# scenarios; real programs, of which the measurements have two in their image; and tools that people use.
COUNTERS = experiments/counters
COUNTERS_GUEST = $(COUNTERS)/guest
PROGRAM_accuracy = $(sort $(wildcard $(COUNTERS_GUEST)/accuracy/*.c)) programs/command_line.c \
    programs/measure/statistics.c $(COUNTERS_GUEST)/accuracy/measured.asm
$(BUILD)/programs/$(COUNTERS_GUEST)/accuracy/%.o: private PROGRAM_CFLAGS += -fno-builtin -pthread
$(BUILD)/programs/accuracy: PROGRAM_LDFLAGS = -s -pthread
ACCURACY = jobs/accuracy=$(BUILD)/programs/accuracy jobs/scenarios@accuracy
IMAGE_accuracy = $(IMAGE_initrd) $(ACCURACY)

# Not all to every image: the compiler alone has 33 MB.
COUNTERS_REAL = $(COUNTERS_GUEST)/real
PROGRAM_marked = $(COUNTERS_REAL)/marked.c
$(BUILD)/programs/marked: PROGRAM_LDFLAGS = -s
PACKAGES_real = gzip bzip2 xz-utils sqlite3 glpk-utils python3-minimal cpp
REAL_some = gzip glpsol
REAL_all = gzip bzip2 xz sqlite3 python3 cc1 glpsol
$(BUILD)/real/%: $(addprefix $(COUNTERS_REAL)/,tree.sh functions.py inputs.py) programs/payload/parts.sh \
    $(BUILD)/payload/packages-real.txt
	$(call say,FILL,$@)
	$(Q)$(COUNTERS_REAL)/tree.sh $@ "$$(sed -n 1p $(BUILD)/payload/packages-real.txt)" $(REAL_$*)
REAL_JOB = jobs/real=$(COUNTERS_REAL)/real.sh workloads/common.sh=programs/workloads/common.sh \
    $(foreach name,stones.py inputs.py,real/$(name)=$(COUNTERS_REAL)/$(name)) \
    real/marked=$(BUILD)/programs/marked
IMAGE_real = $(WITH_PERF) busybox $(REAL_JOB) .=$(BUILD)/real/all
IMAGE_bench += $(ACCURACY) $(REAL_JOB) .=$(BUILD)/real/some
# All of the real programs take 25 MiB more, and each start of a bare machine as much longer.
AUTO_IMAGES += $(if $(filter 0,$(REAL)),,real)

# PAPI as Debian packages it, and its own tests; and the job multiplex, which wants perf.
COUNTERS_TOOLS = $(COUNTERS_GUEST)/tools
PACKAGES_papi = papi-tools papi-examples libgomp1 libcrypt1
$(BUILD)/papi: $(addprefix $(COUNTERS_TOOLS)/,tree.sh papi.txt threads.c) programs/payload/parts.sh \
    $(BUILD)/payload/packages-papi.txt
	$(call say,FILL,$@)
	$(Q)$(COUNTERS_TOOLS)/tree.sh $@ "$$(sed -n 1p $(BUILD)/payload/packages-papi.txt)"
IMAGE_papi = $(IMAGE_initrd) busybox etc/ jobs/papi=$(COUNTERS_TOOLS)/papi.sh \
    papi/tests=$(COUNTERS_TOOLS)/papi.txt .=$(BUILD)/papi
IMAGE_multiplex = $(IMAGE_tools) jobs/multiplex=$(COUNTERS_TOOLS)/multiplex.sh

# The job tool, with the cases of one row of tools.ini: IMAGE_NAME = ... $(call TOOL_JOB,ROW) and a tree.
PROGRAM_leave = $(COUNTERS_TOOLS)/leave.c experiments/shared/guest/hand_over.c
$(BUILD)/programs/leave: PROGRAM_LDFLAGS = -s
TOOL_JOB = busybox etc/ root/ jobs/tool=$(COUNTERS_TOOLS)/tool.sh workloads/common.sh=programs/workloads/common.sh \
    tool/marked=$(BUILD)/programs/marked tool/leave=$(BUILD)/programs/leave \
    tool/name=$(BUILD)/tool/$(1)/name tool/cases=$(BUILD)/tool/$(1)/cases
$(BUILD)/tool/%/name $(BUILD)/tool/%/cases: FORCE
	$(Q)$(COUNTERS_TOOLS)/cases.py $(BUILD)/tool/$* $*

PACKAGES_rr = rr dash gzip sqlite3
$(BUILD)/rr: $(wildcard $(COUNTERS_GUEST)/rr/*) $(COUNTERS_REAL)/inputs.py programs/payload/parts.sh $(BUILD)/payload/packages-rr.txt
	$(call say,FILL,$@)
	$(Q)$(COUNTERS_GUEST)/rr/tree.sh $@ "$$(sed -n 1p $(BUILD)/payload/packages-rr.txt)"
IMAGE_rr = $(IMAGE_initrd) $(call TOOL_JOB,rr) .=$(BUILD)/rr

# Rows of tools that are Debian's programs as they are: of PACKAGES_ROW what DEBIAN_ROW lists (debian.sh).
$(BUILD)/debian/%: $(COUNTERS_TOOLS)/debian.sh programs/payload/parts.sh $(BUILD)/payload/packages-%.txt
	$(call say,FILL,$@)
	$(Q)$(COUNTERS_TOOLS)/debian.sh $@ "$$(sed -n 1p $(BUILD)/payload/packages-$*.txt)" $(DEBIAN_$*)

# perf, whose annotate wants objdump, and loads of it.
PACKAGES_perf = binutils-x86-64-linux-gnu
DEBIAN_perf = usr/bin/x86_64-linux-gnu-objdump
PROGRAM_sharing = $(COUNTERS_GUEST)/perf/sharing.c
$(BUILD)/programs/sharing: PROGRAM_LDFLAGS = -pthread
PERF_ROW = $(WITH_PERF) $(call TOOL_JOB,$(1)) tool/perf.sh=$(COUNTERS_GUEST)/perf/perf.sh \
    tool/sharing=$(BUILD)/programs/sharing .=$(BUILD)/debian/perf usr/bin/objdump@x86_64-linux-gnu-objdump
IMAGE_tool-perf = $(call PERF_ROW,perf)
IMAGE_tool-perf-mem = $(call PERF_ROW,perf-mem)
IMAGE_tool-perf-test = $(call PERF_ROW,perf-test)
IMAGE_tool-perf-trace = $(call PERF_ROW,perf-trace)

# Other tools, and servers and a JIT compiler under perf.
OTHERS = $(COUNTERS_GUEST)/others
OTHERS_ROW = $(WITH_PERF) $(call TOOL_JOB,$(1)) tool/others.sh=$(OTHERS)/others.sh .=$(BUILD)/debian/$(1)
PACKAGES_stress-ng = stress-ng
DEBIAN_stress-ng = usr/bin/stress-ng
IMAGE_tool-stress-ng = $(call OTHERS_ROW,stress-ng)
PACKAGES_bpftrace = bpftrace
DEBIAN_bpftrace = usr/bin/bpftrace
IMAGE_tool-bpftrace = $(call OTHERS_ROW,bpftrace)
PACKAGES_gdb = gdb-minimal
DEBIAN_gdb = usr/bin/gdb
IMAGE_tool-gdb = $(call OTHERS_ROW,gdb) $(foreach name,bts reverse pt,tool/$(name).gdb=$(OTHERS)/$(name).gdb)
PACKAGES_libpfm4 = libpfm4-dev
DEBIAN_libpfm4 = also:$(OTHERS)/examples.sh
IMAGE_tool-libpfm4 = $(IMAGE_initrd) $(call TOOL_JOB,libpfm4) .=$(BUILD)/debian/libpfm4
IMAGE_tool-nginx = $(WITH_PERF) $(call TOOL_JOB,nginx) deb:usr/sbin/nginx deb:usr/bin/wrk $(WORKLOADS) \
    tool/others.sh=$(OTHERS)/others.sh
PACKAGES_postgres = postgresql-15 postgresql-client-15
DEBIAN_postgres = $(foreach name,postgres initdb psql,usr/lib/postgresql/15/bin/$(name)) data:usr/share/postgresql/15 \
    $(foreach name,plpgsql dict_snowball,data:usr/lib/postgresql/15/lib/$(name).so) \
    also:$(OTHERS)/cluster.sh
IMAGE_tool-postgres = $(call OTHERS_ROW,postgres) $(WORKLOADS) usr/bin/psql@../lib/postgresql/15/bin/psql \
    tool/prepare=$(OTHERS)/prepare.sh $(foreach name,single server,tool/$(name).sql=$(OTHERS)/$(name).sql)
PACKAGES_php = php8.2-cli php8.2-opcache
DEBIAN_php = usr/bin/php8.2 data:usr/lib/php/20220829/opcache.so
IMAGE_tool-php = $(call OTHERS_ROW,php) tool/jit.php=$(OTHERS)/jit.php
# Tools that read the platform's registers, and perf, which has counters for the same.
PLATFORM_ROW = $(WITH_PERF) rapl.ko intel-cstate.ko $(call TOOL_JOB,$(1)) \
    tool/prepare=$(COUNTERS_TOOLS)/prepare.sh $(if $(2),.=$(BUILD)/debian/$(2))
PACKAGES_likwid = likwid lua5.3 bash
DEBIAN_likwid = bin/bash usr/bin/lua5.3 usr/bin/likwid-bench usr/sbin/likwid-accessD also:$(COUNTERS_TOOLS)/likwid.sh
IMAGE_tool-likwid = $(call PLATFORM_ROW,likwid,likwid)
PACKAGES_pcm = pcm
DEBIAN_pcm = $(addprefix usr/sbin/,pcm pcm-core pcm-msr)
IMAGE_tool-pcm = $(call PLATFORM_ROW,pcm,pcm)
PACKAGES_turbostat = linux-cpupower
DEBIAN_turbostat = usr/sbin/turbostat usr/bin/cpupower
IMAGE_tool-turbostat = $(call PLATFORM_ROW,turbostat,turbostat)
PACKAGES_hwloc = hwloc-nox
DEBIAN_hwloc = usr/bin/lstopo-no-graphics usr/bin/hwloc-info
IMAGE_tool-hwloc = $(call PLATFORM_ROW,hwloc,hwloc)
IMAGE_tool-topdown = $(call PLATFORM_ROW,topdown)
IMAGE_tool-residency = $(call PLATFORM_ROW,residency)
$(BUILD)/debian/likwid: $(COUNTERS_TOOLS)/likwid.sh
$(BUILD)/debian/libpfm4: $(OTHERS)/examples.sh
$(BUILD)/debian/postgres: $(OTHERS)/cluster.sh

# make tools [ONLY=WORD,..] [COLUMNS=C,..] [JOBS=N]: tools that people use, in every column: TOOLS.md, and a
# table of the report.
.PHONY: tools tools-all
COLUMNS ?=
tools:
	@testbed/deps.sh build run check
	@$(MAKE) --no-print-directory tools-all

tools-all: $(EFI) $(LAB) test-machine
	@$(COUNTERS)/analysis/tools_page.py $(if $(ONLY),--only $(ONLY)) $(if $(COLUMNS),--columns $(COLUMNS)) \
	    $(if $(JOBS),--jobs $(JOBS))
