# SPDX-License-Identifier: BSD-2-Clause
# rooms.py: the hypervisor's folders, from the top down, as the Makefile lists them, and above them
# those of the experiments.
import glob
import os
import re

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def rooms(makefile=os.path.join(TOP, "Makefile")):
    """The folders of the line FOLDERS: calls go to one further down, or stay."""
    with open(makefile, encoding="utf-8") as file:
        return re.search(r"^FOLDERS = (.+)$", file.read(), re.MULTILINE)[1].split()


def experiments(top=TOP):
    """The experiments' folders; one stands above those that its NEEDS_NAME names."""
    needs = {}
    for folder in sorted(glob.glob(os.path.join(top, "experiments", "*", "hypervisor"))):
        name = os.path.basename(os.path.dirname(folder))
        with open(
            os.path.join(top, "experiments", name, "experiment.mk"), encoding="utf-8"
        ) as file:
            line = re.search(rf"^NEEDS_{name} = (.+)$", file.read(), re.MULTILINE)
        needs[name] = line[1].split() if line else []
    order = []
    while needs:
        # One that no other needs.
        name = next(name for name in needs if not any(name in other for other in needs.values()))
        order.append(f"experiments/{name}/hypervisor")
        del needs[name]
    return order
