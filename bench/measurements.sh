# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
# measurements.sh: the table measurements.ini, and those of experiments, for shells, to be sourced.
# measurements_top= says where bench/ and experiments/ are.

table_text() {
    for each in "${measurements_top:?}"/bench/measurements.ini \
        "$measurements_top"/experiments/*/measurements.ini; do
        [ ! -e "$each" ] || cat "$each"
    done
}

# The rows of a section: NAME VALUE, a line each.
table_rows() { # table_rows SECTION
    table_text | awk -v section="[$1]" '
        /^;/ || /^$/ { next }
        /^\[/ { inside = $0 == section; next }
        !inside { next }
        /^ / { sub(/^ +/, ""); row = row " " $0; next }
        { if (row != "") print row; sub(/ *= */, " "); gsub(/  +/, " "); row = $0 }
        END { if (row != "") print row }'
}

value_of() { # value_of SECTION NAME
    table_rows "$1" | sed -n "s/^$2 //p"
}

# Peers, configurations and parts with an image of their own are the emulator's: no menu has them,
# and no bare machine measures them.
column_rows() { # NAME ON OPTIONS TITLE, a line each
    table_rows columns | sed '/^[^ ]* peer /d'
    table_rows parts | sed '/^[^ ]* [^ ]* [^ ]*image=/d'
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

# The experiments that a bare machine measures, each of which is a job there.
metal_jobs() {
    table_text | awk '
        /^\[/ { name = "" }
        /^\[experiment / { name = $2; sub(/\]/, "", name) }
        /^metal *=/ && name != "" { print name }'
}

# The items of an experiment that are in a table.
items_in() { # items_in TABLE EXPERIMENT
    table_rows "items $2" | awk -v table="$1" '("," $2 ",") ~ ("," table ",") { print $1 }'
}
