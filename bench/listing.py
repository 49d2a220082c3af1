# SPDX-License-Identifier: BSD-2-Clause
# listing.py: results as text for the console: one line for each measurement's five columns.
from results import COLUMNS

SHOWN = ("instructions", "root_instructions", "exits", "time", "pmis", "branches", "share",
         "samples", "count", "requests")


def text_of(value):
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def lines(results):
    """The lines, with a head; metrics that a table needs least are left out."""
    rows = {}
    for entry in results["measurements"]:
        if entry["metric"] in SHOWN:
            key = (entry["experiment"], entry["item"], entry["metric"], entry["unit"])
            rows.setdefault(key, {})[entry["column"]] = text_of(entry["value"])
    yield f"{'':52}" + "".join(f"{name:>14}" for name in COLUMNS)
    for key, cells in rows.items():
        name = f"{key[0]} {key[1]} {key[2]} ({key[3]})"
        yield f"{name:52}" + "".join(f"{cells.get(column, '-'):>14}" for column in COLUMNS)
    for name, column in results["columns"].items():
        if column["status"] != "ok":
            yield f"column {name}: {column['status']}: {column['why']}"
