# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: what the report has of this experiment (bench/added.py) beside what make bench
# measures.
from added import Measured

import tools_report

MEASURED = (Measured("tools", "Tools that people use", "make tools", tools_report.tools_table),)
