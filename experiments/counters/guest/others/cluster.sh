#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# cluster.sh: makes a database cluster by PostgreSQL's own initdb, for the guest's /postgres.
# Usage: cluster.sh FOLDER PACKAGES   debian.sh calls it
set -euo pipefail
folder=$(realpath "$1") packages=$2
nobody=65534
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -a "$folder" "$work/root"
mkdir "$work/data"
other=()
if [ "$(id -u)" -eq 0 ]; then
    # PostgreSQL refuses to be root's.
    other=(setpriv "--reuid=$nobody" "--regid=$nobody" --clear-groups)
    chmod 755 "$work"
    chown $nobody:$nobody "$work/data"
fi
cd "$work/data"
# The guest has no files of time zones.
TZ=GMT LD_LIBRARY_PATH=$packages/usr/lib/x86_64-linux-gnu:$packages/lib/x86_64-linux-gnu \
    "${other[@]}" "$work/root/usr/lib/postgresql/15/bin/initdb" --no-sync --locale=C \
    --encoding=UTF8 \
    --auth=trust --username=www-data --wal-segsize=1 -D "$work/data" > "$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
}
mkdir "$folder/postgres"
cp -r "$work/data/." "$folder/postgres/"
