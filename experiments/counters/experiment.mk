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
$(BUILD)/papi-tests.txt: $(COUNTERS_TOOLS)/papi.txt
	$(Q)awk '!/^#/ { print $$1, $$2, $$3, $$4, $$6 == "slow" ? "-" : $$5, $$6 }' $< > $@
IMAGE_papi = $(IMAGE_initrd) busybox etc/ jobs/papi=$(COUNTERS_TOOLS)/papi.sh \
    papi/tests=$(BUILD)/papi-tests.txt .=$(BUILD)/papi
IMAGE_tool-papi = $(IMAGE_papi) $(call TOOL_JOB,papi)
IMAGE_multiplex = $(IMAGE_tools) jobs/multiplex=$(COUNTERS_TOOLS)/multiplex.sh

# The job tool, with the cases of one row of tools.ini and of those in its boot: IMAGE_NAME = ...
# $(call TOOL_JOB,ROW) and a tree.
PROGRAM_leave = $(COUNTERS_TOOLS)/leave.c experiments/shared/guest/hand_over.c
$(BUILD)/programs/leave: PROGRAM_LDFLAGS = -s
TOOL_JOB = busybox etc/ root/ jobs/tool=$(COUNTERS_TOOLS)/tool.sh workloads/common.sh=programs/workloads/common.sh \
    tool/marked=$(BUILD)/programs/marked tool/leave=$(BUILD)/programs/leave \
    tool/cases=$(BUILD)/tool/$(1)/cases
$(BUILD)/tool/%/cases: FORCE
	$(Q)$(PYTHON) -m experiments.counters.guest.tools.cases $@ $*

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
# Other tools, and servers and a JIT compiler under perf. A row's boot has the programs of all rows in it.
OTHERS = $(COUNTERS_GUEST)/others
PACKAGES_stress-ng = stress-ng
DEBIAN_stress-ng = usr/bin/stress-ng
PACKAGES_libpfm4 = libpfm4-dev
DEBIAN_libpfm4 = also:$(OTHERS)/examples.sh
PACKAGES_postgres = postgresql-15 postgresql-client-15
DEBIAN_postgres = $(foreach name,postgres initdb psql,usr/lib/postgresql/15/bin/$(name)) data:usr/share/postgresql/15 \
    $(foreach name,plpgsql dict_snowball,data:usr/lib/postgresql/15/lib/$(name).so) \
    also:$(OTHERS)/cluster.sh
PACKAGES_php = php8.2-cli php8.2-opcache
DEBIAN_php = usr/bin/php8.2 data:usr/lib/php/20220829/opcache.so
PACKAGES_gdb = gdb-minimal
DEBIAN_gdb = usr/bin/gdb
PACKAGES_bpftrace = bpftrace
DEBIAN_bpftrace = usr/bin/bpftrace
debian = $(foreach name,$(1),.=$(BUILD)/debian/$(name))
TOOL_ROW = $(WITH_PERF) $(call TOOL_JOB,$(1)) tool/perf.sh=$(COUNTERS_GUEST)/perf/perf.sh tool/others.sh=$(OTHERS)/others.sh
IMAGE_tool-perf = $(call TOOL_ROW,perf) $(call debian,perf) usr/bin/objdump@x86_64-linux-gnu-objdump
IMAGE_tool-others = $(call TOOL_ROW,stress-ng) $(call debian,stress-ng libpfm4 postgres php) \
    deb:usr/sbin/nginx deb:usr/bin/wrk $(WORKLOADS) usr/bin/psql@../lib/postgresql/15/bin/psql \
    tool/prepare=$(OTHERS)/prepare.sh $(foreach name,single.sql server.sql jit.php,tool/$(name)=$(OTHERS)/$(name))
IMAGE_tool-perf-mem = $(call TOOL_ROW,perf-mem) $(call debian,gdb) tool/sharing=$(BUILD)/programs/sharing \
    $(foreach name,bts reverse pt,tool/$(name).gdb=$(OTHERS)/$(name).gdb)
IMAGE_tool-bpftrace = $(call TOOL_ROW,bpftrace) $(call debian,bpftrace)
# Tools that read the platform's registers, and perf, which has counters for the same.
PACKAGES_likwid = likwid lua5.3 bash
DEBIAN_likwid = bin/bash usr/bin/lua5.3 usr/bin/likwid-bench usr/sbin/likwid-accessD also:$(COUNTERS_TOOLS)/likwid.sh
PACKAGES_pcm = pcm
DEBIAN_pcm = $(addprefix usr/sbin/,pcm pcm-core pcm-msr)
PACKAGES_turbostat = linux-cpupower
DEBIAN_turbostat = usr/sbin/turbostat usr/bin/cpupower
PACKAGES_hwloc = hwloc-nox
DEBIAN_hwloc = usr/bin/lstopo-no-graphics usr/bin/hwloc-info
IMAGE_tool-likwid = $(WITH_PERF) $(call TOOL_JOB,likwid) $(call debian,likwid pcm turbostat hwloc) \
    rapl.ko intel-cstate.ko tool/prepare=$(COUNTERS_TOOLS)/prepare.sh
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
	@$(PYTHON) -m experiments.counters.analysis.tools_page $(if $(ONLY),--only $(ONLY)) $(if $(COLUMNS),--columns $(COLUMNS)) \
	    $(if $(JOBS),--jobs $(JOBS))
