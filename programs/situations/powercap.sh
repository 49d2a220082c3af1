#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# powercap.sh: the job `powercap`: each zone of Linux's power capping: name, constraints, whether a
# limit takes another value and the old one, and whether energy counts. Run by busybox sh as the
# guest's root.
# Linux, Documentation/power/powercap/powercap.rst.
PATH=/bin
export PATH

while read -r module; do
    insmod "/lib/modules/$module.ko" || exit 1
done < /lib/modules/storage.order
status=1
for zone in /sys/class/powercap/intel-rapl:*; do
    [ -e "$zone/name" ] || continue
    status=0
    before=$(cat "$zone/energy_uj")
    /loop
    grows=$(($(cat "$zone/energy_uj") > before))
    echo "powercap: zone=${zone##*/} name=$(cat "$zone/name")" \
        "range=$(cat "$zone/max_energy_range_uj") enabled=$(cat "$zone/enabled") grows=$grows"
    for limit in "$zone"/constraint_*_power_limit_uw; do
        constraint=${limit%_power_limit_uw}
        old=$(cat "$limit")
        echo $((old / 2)) > "$limit"
        new=$(cat "$limit")
        echo "$old" > "$limit"
        echo "powercap: zone=${zone##*/} constraint=$(cat "${constraint}_name") limit=$old" \
            "half=$new back=$(cat "$limit") window=$(cat "${constraint}_time_window_us")"
    done
    [ "$grows" = 1 ] || status=1
done
exit $status
