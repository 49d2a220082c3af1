# SPDX-License-Identifier: BSD-2-Clause
# reverse.gdb: gdb goes back along the branches that it has recorded.
set confirm off
set pagination off
break b
run
record btrace bts
break bbb
continue
bt
reverse-finish
reverse-stepi
info record
record goto begin
x/2i $pc
