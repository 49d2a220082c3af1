# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
# jobs.sh: what a column of the tables consists of: its jobs, how each is started, how long it may
# take, and what of its output is a result. Sourced by auto.sh.
# shellcheck disable=SC2154 # auto.sh sets column

name_of_column() { # of its file name, which has to fit FAT
    case $1 in
        interc) echo intercept ;;
        msrnmi | abl_*) echo msr+nmi ;;
        *) echo "$1" ;;
    esac
}

# The boots abl_*, with parts of the bookkeeping left out: bench/README.md's name of what is left.
variant_of_column() {
    case $1 in
        abl_lost | abl_skid | abl_mask) echo "no_${1#abl_}" ;;
        abl_unbl) echo no_unblock ;;
        abl_*) echo "${1#abl_}" ;;
    esac
}

jobs_of_column() {
    case $1 in
        kvm) wanted="msr exit pmi a1k" ;;
        abl_*) wanted="exit" ;;
        *) wanted="msr exit pmi a1k a1 profile nginx accuracy" ;;
    esac
    for each in $wanted; do
        # For tests, some of them.
        case ,$(word pmv.jobs "$each"), in *,$each,*) echo "$each" ;; esac
    done
}

# The measurements at CPL 0 run in the bench kernel under KVM, else in a module of this kernel.
job_command() {
    case $column/$1 in
        kvm/*)
            echo env "pmv.bench=measure:$1:$(word pmv.runs 0):$(word pmv.operations 0)" /init kvm ;;
        */msr | */exit | */pmi | */a1k) echo /lib/auto/measure.sh "$1" ;;
        */a1) echo /init a1bench ;;
        *) echo /init "$1" ;;
    esac
}

job_seconds() {
    case $1 in
        accuracy | nginx | profile) echo 1800 ;;
        *) echo 1000 ;;
    esac
}

experiment_of() { # of a job, which has its experiment's name
    if [ -z "$(variant_of_column "$column")" ]; then echo "$1"; else echo ablation; fi
}

# The lines of the experiment `exit` as `ablation`, those that it wants of them.
as_variant() { # as_variant VARIANT
    if [ -z "$1" ]; then
        cat
    else
        sed "s/^bench: experiment=exit item=\(cpuid\|cpuid_blocked\|empty_rax\) /\
bench: experiment=ablation item=\1@$1 /; /^bench: experiment=ablation /!d
            s/ base=\([a-z_]*\) / base=\1@$1 /"
    fi
}

# Regions belong to the emulator's ledger, which nobody keeps here. Of a job that failed the figures
# are not to be trusted: they are kept, but not as results.
job_result() { # job_result JOB STATUS
    if [ "$2" -eq 0 ]; then
        tr -d '\r' | as_variant "$(variant_of_column "$column")" |
            sed '/^bench:/s/ region=[0-9]*//' |
            grep -v -E '^bench: (experiment|item|base|ops)=[^ ]*( (item|base|ops)=[^ ]*)*$'
    else
        tr -d '\r' | sed 's/^bench:/failed:/'
        echo "bench: experiment=$(experiment_of "$1") item=all" \
            "skip=\"the job ended with status $2\""
    fi
}

job_given_up() {
    echo "bench: experiment=$(experiment_of "$1") item=all" \
        "skip=\"the machine went down in it twice\""
}
