# SPDX-License-Identifier: BSD-2-Clause
# pt.gdb: gdb records branches by Processor Trace, and shows them; where there is none it says so, and ends.
set confirm off
set pagination off
break bb
run
record btrace pt
finish
info record
record function-call-history /c
record goto begin
record instruction-history
