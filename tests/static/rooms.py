# SPDX-License-Identifier: BSD-2-Clause
# rooms.py: the hypervisor's folders, from the top down, as the Makefile lists them.
import os
import re

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def rooms(makefile=os.path.join(TOP, "Makefile")):
    """The folders of the line FOLDERS: calls go to one further down, or stay."""
    with open(makefile, encoding="utf-8") as file:
        return re.search(r"^FOLDERS = (.+)$", file.read(), re.MULTILINE)[1].split()
