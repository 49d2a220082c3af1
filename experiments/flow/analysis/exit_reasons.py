# SPDX-License-Identifier: BSD-2-Clause
# exit_reasons.py: the numbers and names of basic exit reasons, out of include/vmx.h.
import pathlib
import re

HEADER = pathlib.Path(__file__).resolve().parents[3] / "include" / "vmx.h"
NAMES = {
    int(number): name for name, number in re.findall(r"\bX\(([A-Z_]+), (\d+)\)", HEADER.read_text())
}
NUMBERS = {name: number for number, name in NAMES.items()}

EXTERNAL_INTERRUPT = NUMBERS["EXTERNAL_INTERRUPT"]
INTERRUPT_WINDOW = NUMBERS["INTERRUPT_WINDOW"]
HLT = NUMBERS["HLT"]
VMCALL = NUMBERS["VMCALL"]
VMLAUNCH = NUMBERS["VMLAUNCH"]
VMRESUME = NUMBERS["VMRESUME"]
CR_ACCESS = NUMBERS["CR_ACCESS"]


def name(reason):
    """Takes a basic exit reason; gives its name as the SDM's, in capitals, or its number."""
    return NAMES.get(reason, f"reason {reason}")
