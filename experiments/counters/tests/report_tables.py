# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: the table of this experiment's tables.toml that is made of the boots of its
# tests (bench/added.py).
from experiments.counters.analysis import tools_report

of_tools = tools_report.tools_table
