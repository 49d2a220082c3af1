# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
# jobs.sh: what a column of the tables consists of: its jobs, how each is started, how long it may
# take, and what of its output is a result: from measurements.ini, by measurements.sh, which is
# sourced before. A job has its experiment's name. Sourced by auto.sh.
# shellcheck disable=SC2154 # auto.sh sets column, plan and bench, facts.sh large_pages

# The table that a part or a configuration is measured for; nothing of a column.
table_of() { # table_of NAME
    if [ -n "$(variant_of "$1")" ]; then
        echo ablation
    elif [ -n "$(configuration_of "$1")" ]; then
        echo config
    fi
}

# A part has the jobs that have items in its table.
jobs_of_column() {
    wanted=$(plan_word "${plan:-all}" jobs | tr ',' '\n' | sed 's/:.*//')
    [ "$wanted" != all ] || wanted=$(metal_jobs)
    part_table=$(table_of "$1")
    for each in $wanted; do
        [ -z "$part_table" ] || [ -n "$(items_in "$part_table" "$each")" ] || continue
        # For tests, some of them.
        case ,$(word pmv.jobs "$each"), in *,$each,*) echo "$each" ;; esac
    done
}

# The share of a start's time that a job has; 0: it runs its program once.
share_of() { # share_of JOB
    share_found=$(plan_word "${plan:-all}" jobs | tr ',' '\n' | sed -n "s/^$1://p")
    echo "${share_found:-0}"
}

is_kvm() { # of this column
    case $(place_of "$column") in kvm | peer) return 0 ;; esac
    return 1
}

# What is to be there before the first job. Under KVM Linux is the other columns' kernel with their
# initramfs, where /init runs the jobs of its command line.
prepare_jobs() {
    is_kvm || return 0
    mkdir -p /kvm
    ln -sf "$bench/vmlinuz" /kvm/vmlinuz
    ln -sf "$bench/initrd.img" /kvm/initrd
}

setting() { # setting JOB KEY DEFAULT
    found=$(value_of "experiment $1" "$2")
    echo "${found:-$3}"
}

init_job() { # of a job
    setting "$1" job "$1"
}

# Whether it is one of the measurements at CPL 0.
in_kernel() { # in_kernel JOB
    [ "$(setting "$1" program '')" = kernel ]
}

# The measurements at CPL 0 run in the test kernel under KVM, else in a module of this kernel. The
# launcher's own time limit is not the one that counts.
job_command() {
    under_kvm=pmv.kvm=$(init_job "$1")
    alone="/init $(init_job "$1")"
    if in_kernel "$1"; then
        under_kvm=pmv.tests=measure:$1:$(word pmv.runs 0):$(word pmv.operations 0)
        alone="/lib/auto/measure.sh $1"
    fi
    if is_kvm; then
        echo env "$under_kvm" "pmv.seconds=$(($(job_seconds "$1") * 2))" /init kvm
    else
        echo "$alone"
    fi
}

job_seconds() {
    setting "$1" metal 1000
}

experiment_of() { # of a job
    part_table=$(table_of "$column")
    echo "${part_table:-$1}"
}

# What an item is called among those of this part or configuration.
item_of() { # item_of NAME JOB ITEM
    case $(table_of "$1") in
        ablation) printf '%s\n' "$3@$(variant_of "$1")" ;;
        config) printf '%s\n' "$2.$3@$1" ;;
        *) printf '%s\n' "$3" ;;
    esac
}

# The lines of a job as those of a part or a configuration, the ones that its table wants of them.
as_part() { # as_part NAME JOB
    part_table=$(table_of "$1")
    if [ -z "$part_table" ]; then
        cat
        return
    fi
    items=$(items_in "$part_table" "$2" | tr '\n' '|' | sed 's/|/\\|/g')
    sed "s/^bench: experiment=$2 item=\(${items}empty[a-z_]*\) /\
bench: experiment=$part_table item=$(item_of "$1" "$2" '\1') /; /^bench: experiment=$part_table /!d
        s/ base=\([a-z_]*\) / base=$(item_of "$1" "$2" '\1') /"
}

# The part that is this column itself: its options are those of every measurement.
own_part() {
    all_options=" $(value_of measured pmuvisor) "
    table_rows parts | while read -r part_name part_on part_options _; do
        [ "$part_on" = "$column" ] || continue
        case $all_options in *" $part_options "*) echo "$part_name" ;; esac
    done
}

# What is wrong with the output of a job that ended well; nothing where all is. Under KVM the
# failures are the guest's own: the launcher only sees that it ended.
complaint() { # complaint JOB FILE
    is_kvm || return 0
    tr -d '\r"' < "$2" > /tmp/plain
    if in_kernel "$1"; then
        if grep -q -E '^(not ok|Bail out!)' /tmp/plain; then
            grep -E -m 1 '^(not ok|Bail out!)' /tmp/plain
        elif ! grep -q -E '^1\.\.[0-9]+$' /tmp/plain; then
            echo "the test kernel did not come to its end"
        fi
        return 0
    fi
    ended="^job: name=$(init_job "$1") status="
    if ! grep -q "$ended" /tmp/plain; then
        echo "Linux under KVM did not come to its end"
    elif ! grep -q "${ended}0" /tmp/plain; then
        echo "under KVM it ended with $(sed -n "s/$ended/status /p" /tmp/plain | head -n 1)"
    fi
}

# KVM's settings, from the line with which the job begins; the mode of its guest's APIC, and how
# much of the guest's memory is in large pages.
kvm_facts() {
    tr ' ' '\n' < "$1" | tr -d '\r"' > /tmp/settings
    for each in apicv=enable_apicv nested=nested halt_poll=halt_poll_ns; do
        setting_found=$(sed -n "s/^${each#*=}=//p" /tmp/settings | head -n 1)
        [ -z "$setting_found" ] || fact "kvm_${each%=*}" "$setting_found"
    done
    pages_found=$(sed -n 's/^large_pages=\([0-9]*\)%$/\1/p' /tmp/settings | head -n 1)
    case $pages_found in
        '') ;;
        9[5-9] | 1??) fact ept_pages "$large_pages" ;;
        *) fact ept_pages "$pages_found % of 2 MiB" ;;
    esac
    tr -d '\r' < "$1" | sed -n 's/^kvm: release=\([^"]*\)$/env: kvm="of Linux \1"/p
        s/^launch: guest_apic=\([a-zA-Z0-9]*\)$/env: apic="\1"/p'
}

# Regions belong to the emulator's ledger, which nobody keeps here.
job_lines() { # job_lines NAME JOB FILE
    tr -d '\r' < "$3" | as_part "$1" "$2" | sed '/^bench:/s/ region=[0-9]*//' |
        grep -v -E '^bench: (experiment|item|base|ops)=[^ ]*( (item|base|ops)=[^ ]*)*$'
}

# Of a job that failed the figures are not to be trusted: they are kept, but not as results.
job_result() { # job_result JOB FILE WHY NUMBER; WHY is empty when all is well, NUMBER of one run
    ! is_kvm || [ "${4:-1}" != 1 ] || kvm_facts "$2"
    if [ -n "$3" ]; then
        tr -d '\r' < "$2" | sed 's/^bench:/failed:/'
        [ "${4:-1}" != 1 ] || job_left_out "$1" "$3"
        return
    fi
    [ -z "${4:-}" ] || sample_line "$1" "$4" /tmp/before /tmp/after
    # Of many repetitions the figures alone.
    job_lines "$column" "$1" "$2" | if [ -n "${4:-}" ]; then grep '^bench:'; else cat; fi
    same=$(own_part)
    if [ -n "$same" ] && [ -n "$(items_in "$(table_of "$same")" "$1")" ]; then
        job_lines "$same" "$1" "$2"
    fi
    [ -n "${4:-}" ] || processor_lines "$1" /tmp/before /tmp/after
}

job_left_out() { # job_left_out JOB WHY
    echo "bench: experiment=$(experiment_of "$1") item=all skip=\"$2\""
}
