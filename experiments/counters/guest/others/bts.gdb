# SPDX-License-Identifier: BSD-2-Clause
# bts.gdb: gdb records branches by the processor's branch trace store, and shows them.
set confirm off
set pagination off
break bb
run
record btrace bts
finish
info record
record function-call-history /c
record goto begin
record instruction-history
