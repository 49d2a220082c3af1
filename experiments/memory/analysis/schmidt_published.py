# SPDX-License-Identifier: BSD-2-Clause
# schmidt_published.py: figures that another has published of memory traces, as in its text, with
# machine and source. Data only.

# A memory trace by write-protected pages and the monitor trap flag, beside a translator.
SCHMIDT = {
    "name": "Schmidt",
    "source": "T. Schmidt, Evaluating Techniques for Full System Memory Tracing, Bachelor's "
    "thesis, Karlsruhe Institute of Technology, 2017, sections 5.1 to 5.4",
    "machine": "Intel Xeon E5-2618L v3 (2.30 GHz), 4 x 8 GB; KVM of Linux 4.3.0, QEMU 2.6.0; QSimu "
    "is a QEMU with hooks in its translator",
    "hertz": 2.3e9,
    "rounds": 100_000_000,
    # Table 5.2: t and u, seconds, and "slowdown".
    "table_5_2": {
        "t": 48,
        "u": 100,
        "native": 6,
        "QSimu": 234,
        "KVM": 9501,
        "slowdowns": {"QSimu": 39, "KVM": 1582.5},
    },
    # Figure 5.1 and its text: t from 0 to 100, seconds at t = 0, and where the lines meet.
    "figure_5_1": {"u": 10000, "t": 100, "KVM": 2, "QSimu": 86, "break_even_percent": 0.09},
    # Section 5.4: cycles for each instruction of x86, of a VM exit and of an entry, and of the
    # time outside of the guest for each exit; the slowdown it calculates with, and what comes out.
    "cpi": 2.75,
    "exit": 280,
    "entry": 267,
    "outside": 1212,
    "share": 0.095,
    "text_slowdown": 38,
    "cpi_qsimu": 104.5,
    "cpi_kvm": 336.69875,
}
