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

# Words of the Linux that runs KVM, and the suite of its kernel, of OPTIONS of a column and of its
# configuration.
kvm_words=() kvm_suite=''
find_kvm_words() { # find_kvm_words OPTIONS
    local word
    local -a options
    IFS=/ read -ra options <<< "$1"
    read -ra kvm_words < <(value_of measured kvm)
    kvm_suite=''
    for word in "${options[@]}"; do
        case $word in
            host=*) kvm_suite=${word#host=} ;;
            mitigations=*)
                # Its guest's are those that it has itself.
                mapfile -t kvm_words < <(printf '%s\n' "${kvm_words[@]}" | sed '/mitigations=/d')
                kvm_words+=("$word")
                ;;
            *) kvm_words+=("pmv.${word#pmv.}") ;;
        esac
    done
}

declare -A options_of=() place_of=()
chain=''
while read -r name on options title; do
    [ "$options" != - ] || options=''
    if [ -n "${place_of[$on]:-}" ]; then
        # A part or a configuration of a column.
        options=${options_of[$on]}${options_of[$on]:+/}$options
        on=${place_of[$on]} title=''
    else
        options_of[$name]=$options place_of[$name]=$on
    fi
    chain+="    ${chain:+el}if [ \"\$1\" = $name ]; then
        set column_title=\"${title%%: *}\"
        set column_on=$on
"
    case $on in
        pmuvisor)
            image=''
            [[ /$options != */image=* ]] || image=${options##*image=} options=${options%/image=*}
            record=$(with_measured "$options")
            chain+="        set column_options=\"${options//\// }\"
        set column_measured=\"${record//\// }\"
        set column_record=\"$record\"
"
            [ -z "$image" ] || chain+="        set column_image=$image
"
            ;;
        kvm | peer)
            find_kvm_words "$options"
            chain+="        set column_words=\"${kvm_words[*]}\"
"
            [ -z "$kvm_suite" ] || chain+="        set column_host=-$kvm_suite
"
            ;;
    esac
done < <(column_rows)

plans=''
for name in $(plan_names); do
    words=$(plan_word "$name" words)
    plans+="    ${plans:+el}if [ \"\$1\" = $name ]; then
        set plan_words=\"${words//\// }\"
        set plan_minutes=$(plan_word "$name" minutes)
"
done

cat << CFG
# Written by menu.sh from bench/measurements.ini, and read by grub.cfg beside it.

set columns="$(column_names | paste -s -d ' ')"
set column_parts="$(part_names | paste -s -d ' ')"
set measured_words="$(value_of measured linux)"

# find_column NAME: sets column_title, column_on, column_options, PMUvisor's of an ordinary start,
# column_measured, those of a measuring one, column_record, the same as one word, and column_image,
# where it is another one; of KVM column_words, its Linux's, and column_host, what the names of its
# kernel and initramfs end with, where they are not those of the other columns.
function find_column {
    set column_title=
    set column_on=
    set column_options=
    set column_measured=
    set column_record=
    set column_image=pmuvisor
    set column_words=
    set column_host=
${chain}    fi
}

# find_plan NAME: sets plan_words and plan_minutes of what BENCH=NAME measures.
function find_plan {
    set plan_words=
    set plan_minutes=
${plans}    fi
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
