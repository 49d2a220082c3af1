#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Prints columns.cfg, what GRUB's menu has to know of the columns (bench/measurements.ini): their
# names, a function that finds what belongs to one, and the entry `safe`. Usage: menu.sh >
# columns.cfg
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
measurements_top=${MEASUREMENTS_TOP:-$top}
# shellcheck source=bench/measurements.sh
. "$top/bench/measurements.sh"

# What the menu says wins over the user's own pmuvisor.cfg.
read -ra measured < <(value_of measured pmuvisor)
# What is the least of a machine: for one on which the other entries do not start.
safe=(processors=1 vtd=off tick=0)

with_measured() { # with_measured OPTIONS
    local options=$1 word
    for word in "${measured[@]}"; do
        [[ /$1 == */${word%%=*}=* ]] || options+=/$word
    done
    echo "$options"
}

declare -A options_of=()
chain=''
while read -r name on options title; do
    [ "$options" != - ] || options=''
    if [[ $name == abl_* ]]; then
        options=${options_of[$on]}/$options
        on=pmuvisor title=''
    else
        options_of[$name]=$options
    fi
    chain+="    ${chain:+el}if [ \"\$1\" = $name ]; then
        set column_title=\"$title\"
        set column_on=$on
"
    [ "$on" = pmuvisor ] || continue
    record=$(with_measured "$options")
    chain+="        set column_options=\"${options//\// }\"
        set column_measured=\"${record//\// }\"
        set column_record=\"$record\"
"
done < <(column_rows)

cat << CFG
# Written by menu.sh from bench/measurements.ini, and read by grub.cfg beside it.

set columns="$(column_names | paste -s -d ' ')"
set column_parts="$(part_names | paste -s -d ' ')"
set measured_words="$(value_of measured linux)"

# find_column NAME: sets column_title, column_on, column_options, PMUvisor's of an ordinary start,
# column_measured, those of a measuring one, and column_record, the same as one word.
function find_column {
    set column_title=
    set column_on=
    set column_options=
    set column_measured=
    set column_record=
${chain}    fi
}

# safe_entry: an entry that asks the least of a machine. Without pmv_args, which may ask for more.
function safe_entry {
    menuentry "Linux: PMUvisor, safe (one processor, no VT-d, no tick)" --id safe {
        if guard_start; then
            chainloader \$pmv_dir/pmuvisor.efi ${safe[*]}
        fi
    }
}
CFG
