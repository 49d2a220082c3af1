# SPDX-License-Identifier: BSD-2-Clause
# cr3.py: what of a value of CR3 says which table it is. SDM Vol. 3, "Paging", table "Use of CR3";
# Linux, arch/x86/entry/calling.h (PTI_USER_PGTABLE_BIT, PTI_USER_PCID_BIT).

TABLE_MASK = 0x000F_FFFF_FFFF_F000  # the table's address; a record has its bits 47:12
PTI_USER_TABLE = 1 << 12  # Linux: the user's table is the kernel's neighbour
PTI_USER_PCID = 1 << 11
