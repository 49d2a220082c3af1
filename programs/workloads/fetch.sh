#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Prints a folder that has the guest's Debian packages (perf, nginx, wrk, busybox, or those that are
# named) and the libraries that they need, unpacked but not installed: this machine gets no web
# server, and needs none of them. Writes only in the cache; what is there already is taken as it is.
# Usage: fetch.sh [--update] [PACKAGE...]
set -euo pipefail

fail() {
    echo "workloads/fetch.sh: $*" >&2
    exit 1
}

packages=(linux-perf nginx wrk busybox-static)
# Of an interpreter or a compiler that is named, the package of its version as well.
versions='^$'

update=0
case ${1:-} in
    --update)
        update=1
        shift
        ;;
    -*) fail "unknown option '$1', wanted --update" ;;
esac
if [ $# -gt 0 ]; then
    packages=("$@")
    versions='^((lib)?python3[.][0-9]+-minimal|cpp-[0-9]+.*)$'
fi
# shellcheck source=programs/suite.sh
. "$(dirname "$0")/../suite.sh"
cache=${PMUVISOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pmuvisor}/packages/$suite
name=$(IFS=+ && echo "${packages[*]}")
root=$cache/$name
if [ $update -eq 0 ] && [ -d "$root" ]; then
    echo "$root"
    exit 0
fi

# The packages and, of what they depend on, the libraries. Of alternatives the first is taken, as
# apt does. Data of interpreters, which perf is linked with but does not start, stays out.
with_libraries() {
    apt-cache depends --recurse --important "${packages[@]}" 2> /dev/null |
        awk -v roots="${packages[*]}" -v versions="$versions" '
            /^[^ |<]/ { package = $1; alternative = 0; known[package] = 1; next }
            /Depends: / {
                if (!alternative && ($2 ~ versions ||
                    ($2 ~ /^(lib|zlib)/ && $2 !~ /-(stdlib|minimal|common)$/)))
                    needs[package] = needs[package] " " $2
                alternative = /^ *\|/
            }
            END {
                count = split(roots, queue, " ")
                for (i = 1; i <= count; i++) {
                    if (!(queue[i] in known))
                        exit 1
                    print queue[i]
                    seen[queue[i]] = 1
                    parts = split(needs[queue[i]], more, " ")
                    for (j = 1; j <= parts; j++)
                        if (!(more[j] in seen)) {
                            seen[more[j]] = 1
                            queue[++count] = more[j]
                        }
                }
            }'
}

mkdir -p "$cache"
work=$(mktemp -d "$cache/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
mapfile -t wanted < <(with_libraries)
if [ ${#wanted[@]} -lt ${#packages[@]} ]; then
    refresh_lists || true
    mapfile -t wanted < <(with_libraries)
    [ ${#wanted[@]} -ge ${#packages[@]} ] ||
        fail "apt-cache does not know all of ${packages[*]}; as root run: apt-get update" \
            "(Debian 12 or 13 is needed)"
fi
fetch_packages "$work" "$root" "${wanted[@]}"
echo "$root"
