# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
# plan.sh: which starts a plan of measurements.ini has, in which order, and how long each may take.
# The first start writes bench/plan.cfg, which the boot menu reads. Each later one mends it where it
# is torn, and has fewer rounds where those that are left have no time. bench/clock.txt has how much
# of the time is used, by the machine's clock, so that firmware counts; clock2.txt is a copy for the
# case that the power is cut while clock.txt is written. Times are in seconds, a share's in
# milliseconds. Sourced by auto.sh.
# shellcheck disable=SC2154 # auto.sh sets bench, start, column and plan

# What firmware takes where nobody has measured it, and what it never takes; what ends a start; what
# a start that was cut short may have taken besides its jobs.
post_assumed=90
post_most=1800
end_seconds=5
cut_seconds=60
seconds_planned=0

# plan_starts: the plan, from words on stdin: ROUNDS, LEAST (ms of a share), SECONDS (that are left;
# 0: no plan of minutes), OVERHEAD (of each start), ROUND (that has begun), SEED (hexadecimal), then
# FIRST (the column that the plan begins with), NAME:SHARES of each column, -START of each that is
# done, !NAME of each column that does not start, and +NAME:MS, what a start takes in which each job
# runs once, where that is known. Prints the rounds, a share's milliseconds in what is left, and the
# starts; the rounds are as many as leave LEAST to a share, one at least. Each round's order is the
# seed's; the start that plans has its firmware and boot behind it.
plan_starts() {
    tr ' ' '\n' | awk '
        NF == 0 { next }
        { word[++words] = $1 }
        # Park and Miller: the same in every awk.
        function draw(below) {
            state = state * 16807 % 2147483647
            return int(state / 65536) % below
        }
        function order(round,    i, j, other) {
            for (i = 1; i <= names; i++) place[i] = name[i]
            for (i = names; i > 1; i--) {
                j = draw(i) + 1
                other = place[i]; place[i] = place[j]; place[j] = other
            }
            if (round == 1) {
                for (j = 1; j <= names && place[j] != first; j++);
                if (j <= names) {
                    for (; j > 1; j--) place[j] = place[j - 1]
                    place[1] = first
                }
            }
            for (i = 1; i <= names; i++) start[++starts] = round "." place[i]
        }
        # What the starts that are counted take, in milliseconds, when a share has so many.
        function cost(ms,    each, one, total) {
            for (each in count) {
                one = shares[each] * ms
                if (one < once[each]) one = once[each]
                total += count[each] * one
            }
            return total
        }
        function share_in(rounds,    i, column, starts_left, there, low, high, middle) {
            split("", count)
            for (i = 1; i <= rounds * names; i++) {
                column = start[i]; sub(/^[0-9]+\./, "", column)
                if (!(start[i] in done) && !(column in bad)) { count[column]++; starts_left++ }
            }
            there = (seconds - (starts_left - 1) * overhead) * 1000
            high = seconds * 1000
            while (high - low > 1) {
                middle = int((low + high) / 2)
                if (cost(middle) <= there) low = middle; else high = middle
            }
            return low
        }
        END {
            most = word[1]; least = word[2]; seconds = word[3]; overhead = word[4]; begun = word[5]
            state = 1
            for (i = 1; i <= length(word[6]); i++) {
                digit = index("0123456789abcdef", substr(word[6], i, 1))
                state = (state * 31 + digit) % 2147483646 + 1
            }
            first = word[7]
            for (i = 8; i <= words; i++) {
                if (word[i] ~ /^-/) { done[substr(word[i], 2)] = 1; continue }
                if (word[i] ~ /^!/) { bad[substr(word[i], 2)] = 1; continue }
                if (word[i] ~ /^\+/) {
                    split(substr(word[i], 2), part, ":")
                    once[part[1]] = part[2]
                    continue
                }
                split(word[i], part, ":")
                name[++names] = part[1]; shares[part[1]] = part[2]
            }
            for (round = 1; round <= most; round++) order(round)
            rounds = most
            if (seconds != 0)
                while (rounds > 1 && rounds > begun && share_in(rounds) < least) rounds--
            printf "%d %d", rounds, share_in(rounds)
            for (i = 1; i <= rounds * names; i++) printf " %s", start[i]
            print ""
        }'
}

minutes_of() { # minutes_of SECONDS: rounded up
    echo $((($1 + 59) / 60))
}

# ---- the plan ----

plan_columns() {
    given=$(word pmv.columns '' | tr ',' '\n')
    if [ -n "$given" ]; then
        echo "$given" | sed '/^$/d'
        return
    fi
    case $(plan_word "$plan" columns) in
        all) column_names ;;
        *) plan_word "$plan" columns | tr ',' '\n' ;;
    esac
    plan_word "$plan" parts | tr ',' '\n'
}

# The shares of a start of this column.
shares_of_column() {
    sum=0
    for each_job in $(jobs_of_column "$1"); do
        sum=$((sum + $(share_of "$each_job")))
    done
    echo $sum
}

columns_with_shares() {
    for each_column in $(plan_columns); do
        echo "$each_column:$(shares_of_column "$each_column")"
    done
}

# The starts in the plan that the medium has; nothing where it is torn.
known_starts() {
    ! whole "$bench/plan.cfg" || sed -n 's/^set bench_plan="\(.*\)"$/\1/p' "$bench/plan.cfg"
}

done_starts() {
    for each_file in "$bench"/[0-9]*.ok; do
        each_file=${each_file##*/}
        [ "$each_file" = '[0-9]*.ok' ] || echo "-${each_file%.ok}"
    done
}

# Of the last start of each column, what each job's first run took.
once_each() {
    for each_file in "$bench"/[0-9]*.ok; do
        each_start=${each_file##*/} each_start=${each_start%.ok}
        [ -s "$bench/$each_start.txt" ] || continue
        sed -n "s/^sample: .* number=1 seconds=\([0-9]*\)\.\([0-9]*\).*/\1\20/p" \
            "$bench/$each_start.txt" | sed "s/^/${each_start%%.*} ${each_start#*.} /"
    done | awk '
        $1 > round[$2] { round[$2] = $1; sum[$2] = 0 }
        $1 == round[$2] { sum[$2] += $3 }
        END { for (name in sum) print "+" name ":" sum[name] }'
}

# The columns that the menu leaves out, because a start of theirs has failed.
bad_columns() {
    grep -l -E '^(tries=2|why=.)' "$bench"/[0-9]*.env 2> /dev/null |
        sed 's|.*/[0-9]*\.\(.*\)\.env$|!\1|' | grep -v -x -F "!$column"
}

# The menu counts in files that are there already. A power cut in here may leave a short one, in
# which the menu could not count: its column would be left out.
write_plan() { # write_plan START...
    writable
    for each_start in "$@"; do
        each_file=$bench/$each_start.env
        [ "$(stat -c %s "$each_file" 2> /dev/null)" = "$env_block_bytes" ] ||
            empty_block > "$each_file"
    done
    read_only
    printf '# plan %s\nset bench_plan="%s"\n' "$plan" "$*" | keep plan.cfg ||
        restart "cannot write plan.cfg"
}

# Sets share, what a share has now (0: each job runs its program once), and what progress() says.
follow_plan() {
    share=0 place=1 in_round=1 rounds=1
    [ -n "$(word pmv.plan '')" ] || return 0
    minutes=$(word pmv.minutes 0)
    case $minutes in
        *[!0-9]* | 0?*) restart "pmv.minutes=$minutes (bench_minutes=): wanted a number" ;;
    esac
    seconds_planned=$((minutes * 60))
    left=0
    if [ "$seconds_planned" -gt 0 ]; then
        # 0 would be no plan of minutes.
        left=$((seconds_planned - $(seconds_used)))
        [ "$left" -ge 1 ] || left=1
    fi
    known=$(known_starts)
    first=${known%% *}
    first=${first:-$start}
    named=$(columns_with_shares)
    in_round=$(echo "$named" | wc -l)
    overhead=$((post + boots / starts + end_seconds))
    least=$(plan_word "$plan" least)
    # shellcheck disable=SC2046,SC2086,SC2116 # words
    planned=$(echo "$(plan_word "$plan" rounds)" $((${least:-0} * 1000)) "$left" "$overhead" \
        "${start%%.*}" "$(cat "$bench/id")" "${first#*.}" $named \
        $(done_starts) $(bad_columns) $(once_each) | plan_starts)
    rounds=${planned%% *}
    planned=${planned#* }
    share=${planned%% *}
    wanted=${planned#* }
    place=$(echo "$wanted" | tr ' ' '\n' | grep "^${start%%.*}\." | grep -n -x -F "$start" |
        cut -d : -f 1)
    place=${place:-1}
    short=''
    if [ "$seconds_planned" -gt 0 ] && [ "$share" -eq 0 ]; then
        short="it will take more than planned: too little is left to run each job once"
    elif [ "$known" != "$wanted" ] && [ "$share" -lt $((${least:-0} * 1000)) ]; then
        short="it may take more than planned: a start has $((share / 1000)) s for each share of a"
        short="$short job, and should have $least"
    fi
    # A configuration is compared once.
    if [ "$seconds_planned" -eq 0 ] || [ -n "$(configuration_of "$column")" ]; then
        share=0
    elif [ "$share" -eq 0 ]; then
        share=1
    fi
    # shellcheck disable=SC2086 # words
    [ "$known" = "$wanted" ] || { write_plan $wanted && say_plan $wanted; }
    [ -z "$short" ] || say "plan $plan: $short; bench_minutes= in local.cfg gives it more"
}

say_plan() { # say_plan START...
    if [ "$seconds_planned" -eq 0 ]; then
        say "plan $plan: $# starts, each job once, as long as they take; firmware takes $post s" \
            "of each start ($post_known)"
        return
    fi
    round_shares=$(echo "$named" | awk -F : '{ sum += $2 } END { print sum }')
    say "plan $plan: $(minutes_of "$seconds_planned") minutes, $(minutes_of \
        "$(seconds_used)") used; rounds of $in_round columns: $rounds; firmware takes $post s" \
        "of each start ($post_known), Linux $((boots / starts)) s; jobs take" \
        "$((round_shares * share / 1000 / in_round)) s of a start on average"
}

# ---- the clock ----

now() {
    date +%s
}

clock_value() {
    sed -n "s/^$1=//p" "$bench/$clock"
}

# What firmware took, by the TSC, which counts from the reset on.
post_by_tsc() {
    ticks=$(read_msr 0x10)
    khz=$(dmesg | sed -n 's/.*tsc: Detected \([0-9]*\)\.\([0-9]*\) MHz.*/\1\2/p' | head -n 1)
    [ -n "$ticks" ] && [ "${khz:-0}" -gt 0 ] || return 0
    echo $((ticks / (khz * 1000) - $(seconds_up)))
}

between() { # between NUMBER LEAST MOST
    [ -n "$1" ] && [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]
}

# Sets used, the time until at, which is now; post, what firmware takes, and post_known, how that is
# known; boots, what Linux took until now in this many starts: hosts of KVM differ from the others.
read_clock() {
    at=$(now)
    boots=$(seconds_up) starts=1
    kernel_began=$((at - boots))
    clock=clock.txt
    whole "$bench/$clock" || clock=clock2.txt
    if whole "$bench/$clock"; then
        used=$(clock_value used) post=$(clock_value post) post_known=$(clock_value post_known)
        gap=$((kernel_began - $(clock_value at)))
        if [ "$(clock_value clean)" = 1 ] && between "$gap" 0 $post_most; then
            post=$gap post_known="measured at the last restart"
            used=$((used + gap))
        elif between "$gap" 0 $((post + $(clock_value may_take))); then
            used=$((used + gap))
        else
            # The machine was switched off, or its clock was set.
            used=$((used + post))
        fi
        used=$((used + boots))
        boots=$((boots + $(clock_value boots))) starts=$((starts + $(clock_value starts)))
    else
        post=$(post_by_tsc) post_known="by the TSC"
        between "$post" 0 $post_most || post=$post_assumed post_known="assumed"
        used=$((post + boots))
    fi
}

seconds_used() {
    echo $((used + $(now) - at))
}

write_clock() { # write_clock CLEAN: whether a restart follows
    clock_text=$(
        echo "used=$(seconds_used)"
        echo "at=$(now)"
        echo "clean=$1"
        echo "post=$post"
        echo "post_known=$post_known"
        echo "boots=$boots"
        echo "starts=$starts"
        echo "may_take=$((${share:-0} * ${start_shares:-0} / 1000 + cut_seconds))"
    )
    echo "$clock_text" | keep clock.txt
    echo "$clock_text" | keep clock2.txt
}

# progress JOB NUMBER OF: where the plan is.
progress() {
    [ -n "$(word pmv.plan '')" ] || return 0
    minutes_left=''
    if [ "$seconds_planned" -gt 0 ]; then
        left=$((seconds_planned - $(seconds_used)))
        [ "$left" -ge 0 ] || left=0
        minutes_left=", $(minutes_of "$left") minutes left"
    fi
    say "column $place of $in_round, job $2 of $3, round ${start%%.*} of $rounds$minutes_left:" \
        "column $column, job $1"
}
