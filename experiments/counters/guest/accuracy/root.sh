#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Adds the accuracy experiment to the guest's root as the job `accuracy`, and under its other name
# the job `scenarios`. Usage: root.sh ROOT
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
[ -d "${1:-}" ] || { echo "accuracy/root.sh: no folder '${1:-}'; usage: root.sh ROOT" >&2; exit 1; }
program=$("$here/build.sh")
mkdir -p "$1/jobs"
cp "$program" "$1/jobs/accuracy"
ln -sf accuracy "$1/jobs/scenarios"
