# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
# columns.sh: the table columns.txt for shells, to be sourced. columns_table= says where it is.

# Peers and configurations are the emulator's: no menu has them, and no bare machine measures them.
column_rows() { # NAME ON OPTIONS TITLE, a line each
    sed '/^#/d; /^$/d; /^[^ ]* *peer /d; /^cfg_/d' "${columns_table:?}"
}

column_names() {
    column_rows | sed 's/ .*//; /^abl_/d'
}

part_names() {
    column_rows | sed 's/ .*//; /^abl_/!d'
}

# The column that the results of a column or a part belong to; nothing where there is no such row.
column_of() { # column_of NAME
    column_rows | while read -r name on _; do
        [ "$name" = "$1" ] || continue
        case $name in abl_*) echo "$on" ;; *) echo "$name" ;; esac
    done
}

# The ablation's variant that a part measures; nothing of a column.
variant_of() { # variant_of NAME
    case $1 in abl_*) echo "${1#abl_}" ;; esac
}
