# SPDX-License-Identifier: BSD-2-Clause
# pt.gdb: what gdb says where there is no Processor Trace.
set confirm off
break bb
run
record btrace pt
