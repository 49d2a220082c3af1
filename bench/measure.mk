# SPDX-License-Identifier: BSD-2-Clause
#
# The measurements; included by tests/tests.mk, so paths are from the top.
#
#   make bench [QUICK=1] [JOBS=N] [ONLY=WORD,..] [BOOTS=N]
#                                                  measures, prints the tables, writes bench/out/
#   make answers [QUICK=1]                         of these only the tables that answer a question of an
#                                                  experiment's own: their keys begin with answer-; QUICK=1: with
#                                                  fewer or shorter boots, where there are many
#   make report                                    docs/results.md, its pictures, and all tables of pages of results/
#   make report RESULTS="a.json b.json"            the HTML report of one or more runs
#   make add-machine MACHINE=FILE                  adds the file to send that make collect left to results/,
#                                                  and makes docs/results.md anew

QUICK ?=
JOBS ?=
ONLY ?=
BOOTS ?=
BENCH_OUT ?= bench/out
RESULTS ?=
MACHINE ?=
BENCH_ARGUMENTS = --out $(BENCH_OUT) $(if $(filter-out 0,$(QUICK)),--quick) \
    $(if $(JOBS),--jobs $(JOBS)) $(if $(ONLY),--only $(ONLY)) \
    $(if $(BOOTS),--boots $(BOOTS))

# The images of their own that rows of the table have.
BENCH_IMAGES = $(sort $(shell sed -n '/^;/d; s/.*[ /]image=\([a-z_]*\).*/\1.efi/p' bench/measurements.ini))

.PHONY: bench bench-all answers report report-all add-machine

# Earlier results stay until a run has its own, and are not reported as if they were new.
# Two steps, so that the second make sees the packages that the first one installed.
bench:
	@testbed/deps.sh build run bench
	@$(MAKE) --no-print-directory bench-all

bench-all: $(EFI) $(LAB) $(TEST_KERNEL) test-hypervisor test-machine \
    $(addprefix $(MUTANTS)/,$(BENCH_IMAGES))
	@mkdir -p $(BENCH_OUT) && touch $(BENCH_OUT)/begun; \
	status=0; $(PYTHON) -m bench.run $(BENCH_ARGUMENTS) || status=$$?; \
	if [ $(BENCH_OUT)/results.json -nt $(BENCH_OUT)/begun ]; then \
	    $(PYTHON) -m bench.report --text $(BENCH_OUT)/results.json && \
	    $(PYTHON) -m bench.report --out $(BENCH_OUT)/report.html $(BENCH_OUT)/results.json || status=1; fi; \
	exit $$status

answers:
	@$(MAKE) --no-print-directory bench ONLY=answer-

report:
	@testbed/deps.sh bench
	@$(MAKE) --no-print-directory report-all

report-all:
	@$(if $(RESULTS),$(PYTHON) -m bench.report --out $(BENCH_OUT)/report.html $(RESULTS),$(PYTHON) -m bench.results_page && $(PYTHON) -m docs.figures_page)

add-machine:
	@testbed/deps.sh bench
	@$(PYTHON) -m bench.machine_file "$(MACHINE)"
	@$(MAKE) --no-print-directory report-all RESULTS=
