#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# root.sh: adds this folder's jobs and their files to the guest's root in the given folder. Called
# by programs/payload/build.sh, which says what an image is made of, and how to add another job.
# Usage: root.sh ROOT
set -euo pipefail

root=$1
here=$(cd "$(dirname "$0")" && pwd)

mkdir -p "$root"/{jobs,workloads,etc}
printf '%s\n' 'root:x:0:0::/:/bin/sh' 'www-data:x:33:33::/srv:/bin/false' > "$root/etc/passwd"
printf '%s\n' 'root:x:0:' 'www-data:x:33:' > "$root/etc/group"
for job in profile nginx; do
    install -m 755 "$here/$job.sh" "$root/jobs/$job"
done
install -m 644 "$here"/{common.sh,nginx.conf,wrk.lua} "$root/workloads/"
