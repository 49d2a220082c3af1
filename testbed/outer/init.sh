#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The outer system's initramfs: finds the disk's second partition, which is the root.
/bin/mount -t devtmpfs none /dev
while read -r module; do
    /bin/insmod /lib/modules/"$module.ko"
done < /modules
until [ -e /dev/sda3 ]; do
    /bin/usleep 10000
done
/bin/mount -t ext4 -o ro /dev/sda2 /root && exec /bin/switch_root /root /outer.sh
echo "outer: no root file system"
/bin/poweroff -f
