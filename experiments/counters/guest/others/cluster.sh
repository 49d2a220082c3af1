# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154 # root and packages are debian.sh's
# cluster.sh: makes a database cluster by PostgreSQL's own initdb, for the guest's /postgres.
# Sourced by debian.sh.
root=$(realpath "$root")
nobody=65534
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -a "$root" "$work/root"
mkdir "$work/data"
other=()
if [ "$(id -u)" -eq 0 ]; then
    # PostgreSQL refuses to be root's.
    other=(setpriv "--reuid=$nobody" "--regid=$nobody" --clear-groups)
    chmod 755 "$work"
    chown $nobody:$nobody "$work/data"
fi
cd "$work/data" || exit
# The guest has no files of time zones.
TZ=GMT LD_LIBRARY_PATH=$packages/usr/lib/x86_64-linux-gnu:$packages/lib/x86_64-linux-gnu \
    "${other[@]}" "$work/root/usr/lib/postgresql/15/bin/initdb" --no-sync --locale=C \
    --encoding=UTF8 \
    --auth=trust --username=www-data --wal-segsize=1 -D "$work/data" > "$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
}
mkdir "$root/postgres"
cp -r "$work/data/." "$root/postgres/"
