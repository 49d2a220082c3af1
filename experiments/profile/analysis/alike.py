# SPDX-License-Identifier: BSD-2-Clause
# alike.py: whether two runs of the whole answer are the same: to the digit for programs in user
# mode; where the kernel's own work and its clock have a part, within an interval.
EXACT = ("listing2", "shorts", "sqlite3", "glpsol")
APART = 0.02  # of distances and of shares
COUNTS = 0.01  # of samples and overflows
MEDIANS = 1  # instructions
AS_IT_COMES = ("skid_largest", "handler_largest", "curve", "outside")  # one interrupt in thousands


def near(key, one, other):
    if key in AS_IT_COMES:
        return True
    if not isinstance(one, (int, float)) or key in ("merged", "lost"):
        return one == other
    if key in ("samples", "overflows"):
        return abs(one - other) <= COUNTS * one
    return abs(one - other) <= (MEDIANS if key.endswith("_median") else APART)


def unlike(one, other):
    """A line for each figure that is another one."""
    found = [] if one["chance"] == other["chance"] else ["chance"]
    for part in ("rows", "interrupts"):
        if len(one[part]) != len(other[part]):
            found.append(f"{part}: {len(one[part])} and {len(other[part])}")
        for first, second in zip(one[part], other[part]):
            exact = first.get("load") in EXACT
            found += [
                f"{first['label']}, {first.get('load', 'all')}, {key}: {first[key]} and "
                f"{second.get(key)}"
                for key in first
                if not (
                    first[key] == second.get(key)
                    if exact
                    else near(key, first[key], second.get(key))
                )
            ]
    return found
