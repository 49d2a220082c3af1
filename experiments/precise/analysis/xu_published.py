# SPDX-License-Identifier: BSD-2-Clause
# xu_published.py: figures that another has published of PEBS in a guest, as in its text. Data only.
PAPER = {
    "name": "Xu",
    "source": "L. Xu, KVM: x86/pmu: Add support to enable Guest PEBS via DS, version 3, LKML, "
    "2021-01-04, cover letter",
    "machine": "an Ice Lake server, which is not named",
}
# Shares of perf report, event instructions:ppp, in percent: guest, host.
SHARES = {
    "lfsr_cond": (57.74, 57.90),
    "cmp_end": (41.40, 41.95),
    "__lock_acquire, kernel": (0.21, 0.05),
}
SAMPLES = "2K"
