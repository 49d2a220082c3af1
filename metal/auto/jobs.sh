# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
# jobs.sh: what a column of the tables consists of: its jobs, how each is started, how long it may
# take, and what of its output is a result: from measurements.ini, by measurements.sh, which is
# sourced before. A job has its experiment's name. Sourced by auto.sh.
# shellcheck disable=SC2154 # auto.sh sets column

jobs_of_column() {
    case $1 in
        abl_*) wanted="exit" ;;
        *) wanted=$(metal_jobs) ;;
    esac
    for each in $wanted; do
        # For tests, some of them.
        case ,$(word pmv.jobs "$each"), in *,$each,*) echo "$each" ;; esac
    done
}

# What is to be there before the first job. Under KVM Linux is this kernel with this initramfs,
# where /init runs the jobs of its command line.
prepare_jobs() {
    [ "$column" = kvm ] || return 0
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
    if [ "$column" = kvm ]; then
        echo env "$under_kvm" "pmv.seconds=$(($(job_seconds "$1") * 2))" /init kvm
    else
        echo "$alone"
    fi
}

job_seconds() {
    setting "$1" metal 1000
}

experiment_of() { # of a job
    if [ -z "$(variant_of "$column")" ]; then echo "$1"; else echo ablation; fi
}

# The lines of the experiment `exit` as `ablation`, those that it wants of them.
as_variant() { # as_variant VARIANT
    if [ -z "$1" ]; then
        cat
    else
        items=$(items_in ablation exit | tr '\n' '|' | sed 's/|/\\|/g')
        sed "s/^bench: experiment=exit item=\(${items}empty[a-z_]*\) /\
bench: experiment=ablation item=\1@$1 /; /^bench: experiment=ablation /!d
            s/ base=\([a-z_]*\) / base=\1@$1 /"
    fi
}

# What is wrong with the output of a job that ended well; nothing where all is. Under KVM the
# failures are the guest's own: the launcher only sees that it ended.
complaint() { # complaint JOB FILE
    [ "$column" = kvm ] || return 0
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

# KVM's settings, from the line with which the job begins, and the mode of its guest's APIC.
kvm_facts() {
    sed -n 's/^kvm: release=\([^"]*\)$/env: kvm="of Linux \1"/p
        s/^launch: guest_apic=\([a-zA-Z0-9]*\)$/env: apic="\1"/p'
}

# Regions belong to the emulator's ledger, which nobody keeps here. Of a job that failed the figures
# are not to be trusted: they are kept, but not as results.
job_result() { # job_result JOB FILE WHY; WHY is empty when all is well
    [ "$column" != kvm ] || tr -d '\r' < "$2" | kvm_facts
    if [ -z "$3" ]; then
        tr -d '\r' < "$2" | as_variant "$(variant_of "$column")" |
            sed '/^bench:/s/ region=[0-9]*//' |
            grep -v -E '^bench: (experiment|item|base|ops)=[^ ]*( (item|base|ops)=[^ ]*)*$'
        processor_lines "$1" /tmp/before /tmp/after
    else
        tr -d '\r' < "$2" | sed 's/^bench:/failed:/'
        job_left_out "$1" "$3"
    fi
}

job_left_out() { # job_left_out JOB WHY
    echo "bench: experiment=$(experiment_of "$1") item=all skip=\"$2\""
}
