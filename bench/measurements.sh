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

# One word of a plan; nothing where it has none of that key.
plan_word() { # plan_word PLAN KEY
    value_of plans "$1" | tr ' ' '\n' | sed -n "s/^$2=//p"
}

plan_names() {
    table_rows plans | cut -d ' ' -f 1
}

column_names() {
    table_rows columns | cut -d ' ' -f 1
}

# The parts and configurations that a bare machine measures: those of a plan.
part_names() {
    for each in $(plan_names); do
        plan_word "$each" parts | tr ',' '\n'
    done | awk '!seen[$0]++'
}

# What the boot menu has.
column_rows() { # NAME ON OPTIONS TITLE, a line each
    table_rows columns
    wanted=$(part_names)
    { table_rows parts && table_rows configurations; } |
        awk -v wanted=" $(echo "$wanted" | tr '\n' ' ')" 'index(wanted, " " $1 " ")'
}

# The column that the results of a column, part or configuration belong to; nothing where there is
# no such row.
column_of() { # column_of NAME
    for section in columns parts configurations; do
        row=$(value_of $section "$1")
        case $section/$row in
            */) ;;
            columns/*) echo "$1" && return ;;
            *) echo "${row%% *}" && return ;;
        esac
    done
}

# What a column runs on: machine, kvm, peer or pmuvisor.
place_of() { # place_of NAME
    row=$(value_of columns "$(column_of "$1")")
    echo "${row%% *}"
}

# The ablation's variant that a part measures; nothing of any other row.
variant_of() { # variant_of NAME
    case $1 in abl_*) echo "${1#abl_}" ;; esac
}

# The same of a configuration: its name.
configuration_of() { # configuration_of NAME
    [ -z "$(value_of configurations "$1")" ] || echo "$1"
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
