#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# tool.sh: the job `tool`: runs the cases of rows of tools.ini as they are (/tool/cases, made by
# tools_table.py), each as a region of the emulator's ledger. Run by busybox sh as the guest's root.
#
# Words of the kernel's command line, with what is taken without them:
#   pmv.cases=ROW/CASE,...   which cases, ROW/* for all of a row; without: all of the image's
# Prints "tool: name=ROW case=CASE status=STATUS region=REGION seconds=SECONDS", and before it each
# line that the case has printed as "tool-said: ROW/CASE: LINE". /tool/prepare, where it is there,
# runs first.
job=tool
# shellcheck source=programs/workloads/common.sh
. /workloads/common.sh
PATH=/bin:/usr/bin:/usr/sbin:/sbin
export PATH LC_ALL=C HOME=/root
output=/tmp/tool.out
region=2800 # and one more for each case

now() {
    cut -d ' ' -f 1 /proc/uptime
}

only=$(word pmv.cases '')
ran=0
mkdir -p /root
[ ! -x /tool/prepare ] || /tool/prepare || give_up "/tool/prepare failed"
while read -r name one command; do
    region=$((region + 1))
    case ",$only," in
        ,, | *",$name/$one,"* | *",$name/*,"*) ;;
        *) continue ;;
    esac
    ran=$((ran + 1))
    before=$(now)
    status=0
    # The command's words are split here, as a shell would; quotes are for a script of the row's
    # own. shellcheck disable=SC2086
    CASE=$one /tool/marked $region /bin/sh -c "$command" > $output 2>&1 < /dev/null || status=$?
    seconds=$(echo "$before $(now)" | awk '{ print $2 - $1 }')
    # A line may hold anything; a console's line may not.
    tr -d '\r' < $output | tr -c '\n\t -~' '?' | sed "s|^|tool-said: $name/$one: |"
    echo "tool: name=$name case=$one status=$status region=$region seconds=$seconds"
done < /tool/cases
cases=$(cut -d ' ' -f 1,2 /tool/cases | tr ' \n' '/ ')
[ $ran -gt 0 ] || give_up "pmv.cases=$only, wanted ROW/CASE of: $cases"
echo "tool: cases=$ran"
