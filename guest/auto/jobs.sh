# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
# jobs.sh: what a column of the tables consists of: its jobs, how each is started, how long it may
# take, and what of its output is a result. Sourced by auto.sh.

name_of_column() { # of its file name, which has to fit FAT
    case $1 in
        interc) echo intercept ;;
        msrnmi) echo msr+nmi ;;
        *) echo "$1" ;;
    esac
}

jobs_of_column() {
    case $1 in
        kvm) echo kvm ;;
        *) echo msr,exit,pmi,a1k,a1,profile,nginx,accuracy ;;
    esac
}

job_command() {
    case $1 in
        msr | exit | pmi | a1k) echo /lib/auto/measure.sh "$1" ;;
        a1) echo /init a1bench ;;
        *) echo /init "$1" ;;
    esac
}

job_seconds() {
    case $1 in
        kvm | accuracy | nginx | profile) echo 1800 ;;
        *) echo 600 ;;
    esac
}

# Regions belong to the emulator's ledger, which nobody keeps here. Of a job that failed the figures
# are not to be trusted: they are kept, but not as results.
job_result() { # job_result JOB STATUS
    if [ "$2" -eq 0 ]; then
        tr -d '\r' | sed '/^bench:/s/ region=[0-9]*//' |
            grep -v -E '^bench: (experiment|item|base|ops)=[^ ]*( (item|base|ops)=[^ ]*)*$'
    else
        tr -d '\r' | sed 's/^bench:/failed:/'
        echo "bench: experiment=$1 item=all skip=\"the job ended with status $2\""
    fi
}

job_given_up() {
    echo "bench: experiment=$1 item=all skip=\"the machine went down in it twice\""
}
