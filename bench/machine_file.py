# SPDX-License-Identifier: BSD-2-Clause
"""The file of one machine that somebody sends, and its way into results/.

The file is a results.json (README.md) with nothing in it but what this module lists: keys by name,
and of each text the words that are known. So no serial number, name or address can be in it.

Usage: python3 -m bench.machine_file FILE   checks such a file and adds it to results/
"""
import glob
import itertools
import json
import os
import re
import sys

from bench import columns, importer, results
from bench.measurements import LINUX, METRICS, OPTIONS, TOP
from bench.results import need

FOLDER = os.path.join(TOP, "results")
# The schema wants numbers of all but the names, the unit and `exact`.
MEASUREMENT = (*results.NAME, *"unit value exact n min p95 max low high again samples".split())
REPETITION = "column experiment round position number seconds smis aperf_per_mperf mperf_per_tsc"
# The keys of results.json that are not sent, because `make collect` has none of them.
LEFT_OUT = ("run", "tables")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.@+-]{0,79}")  # of an item: no blank, slash or colon
METRIC = re.compile(r"[a-z][a-z0-9_]*(:[A-Z0-9_]+)?")
RELEASE = r"[1-9]\.\d{1,2}\.\d{1,3}(?:\+deb\d\d(?:u\d{1,2})?)?(?:-\d{1,3})?(?:-cloud|-rt)?-amd64"
SWITCH = "on|off|unknown"
KVM_KEYS = (
    "enable_pmu enable_apicv flexpriority ept vpid unrestricted_guest nested enable_mediated_pmu"
)
GOVERNORS = "performance|powersave|schedutil|ondemand|conservative|userspace|none"
DRIVERS = "intel_pstate|intel_cpufreq|acpi-cpufreq"
LIMITS = r"\d{5,7} to \d{5,7} kHz|(?:no_turbo|boost)=[01]"
PMUVISOR = {f"{key}={value}" for key, value in OPTIONS.items()} | {
    word
    for rows in (columns.COLUMNS, columns.ALL_PARTS, columns.CONFIGS)
    for row in rows.values()
    for word in row.options.split()
}


def words(*found):
    """A pattern of these words as they are."""
    return "|".join(map(re.escape, sorted(found, key=len, reverse=True)))


# What each text of the environment may consist of: patterns of one or more words. Commas,
# semicolons and brackets around them are kept. A BIOS has its vendor and date here, and not its
# version, which may be any text.
KNOWN = {
    "kind": words(*results.KINDS),
    "cpu": r"(?i:\d\dth Gen|Genuine|Intel\(R\)|Xeon\(R\)|Core\(TM\)2?|Pentium\(R\)|Celeron\(R\)|"
    r"Atom\(TM\)|CPU|Processor|Bronze|Silver|Gold|Platinum|Max|Ultra|i?[3579]|v\d|@|\d\.\d\dGHz|"
    r"(?:[deimwx]\d?-)?[a-z]{0,2}\d{2,5}[a-z]{0,3}\d{0,2}\+?)",
    "emulator": r"QEMU emulator version \d{1,2}\.\d{1,2}\.\d{1,3}",
    "kernel": rf"Linux|{RELEASE}",
    "kvm": rf"of|Linux|kvm_intel|{RELEASE}|(?:{KVM_KEYS.replace(' ', '|')})=[YN01-]|"
    r"vmentry_l1d_flush=(?:never|cond|always|auto|not required|EPT disabled|-)|"
    r"halt_poll_ns=\d{1,8}|pt_mode=\d|nmi_watchdog=[01]|"
    r"perf_event_max_sample_rate=\d{1,9}|perf_cpu_time_max_percent=\d{1,3}",
    "compiler": r"gcc|clang version|\(?Debian|\d{1,2}\.\d{1,2}\.\d{1,2}(?:-\d{1,2})?"
    r"(?:\+deb\d\du\d{1,2})?",
    "mitigations": words(*LINUX.split(), "intremap=off", "dis_ucode_ldr", "nox2apic")
    + "|mitigations=(?:off|auto|auto,nosmt)",
    "root_mitigations": "off|auto",
    "apic": "xAPIC|x2APIC",
    "microcode": "0x[0-9a-f]{1,8}",
    "bios": r"American Megatrends(?: Inc\.| International, LLC\.)?|Dell Inc\.|HPE?|Insyde Corp\.|"
    r"Intel Corp(?:oration|\.)|LENOVO|Phoenix Technologies L(?:td\.|TD)|coreboot|EDK II|SeaBIOS|"
    r"\d\d/\d\d/\d{4}",
    "processors": r"\d{1,4}|jobs on mask [0-9a-f]{1,64}",
    "turbo": SWITCH,
    "frequency": rf"\d{{1,5}}(?:\.\d{{1,3}})? MHz|\d{{1,5}} to \d{{1,5}} MHz|"
    rf"governor (?:{GOVERNORS})|{DRIVERS}|{LIMITS}",
    "date": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "governor": rf"{GOVERNORS}|{DRIVERS}|{LIMITS}",
    **dict.fromkeys(("smt", "intremap", "fred"), SWITCH),
    **dict.fromkeys(("kvm_apicv", "kvm_nested"), "[YN01]"),
    "kvm_halt_poll": r"\d{1,8}",
    "ept_pages": r"2 MiB and larger|\d{1,2} % of 2 MiB",
    "cstates": r"C1 by HLT|(?:intel_idle|acpi_idle|haltpoll):|POLL|C\d{1,2}[A-Za-z]{0,2}(?:_ACPI)?",
}
VERSION = r"(?:(?:packages|v[0-9.]+)-\d+-g)?[0-9a-f]{7,40}(?:-dirty)?|unknown"
DETAIL = rf"imported|\d{{1,6}} lines|of \d{{1,3}} starts|{words(*PMUVISOR)}"
ENDS = (
    r"(?:it|under KVM it) ended with status \d+|it did not end in \d+ s|"
    "the machine went down in it|(?:the test kernel|Linux under KVM) did not come to its end"
)
# Why a cell or a column has no figure; another reason stays on the machine.
WHY = re.compile(
    words(
        results.OLDER,
        importer.ABSENT,
        "not asked for",
        "no results yet",
        "the plan leaves it out",
        "it refused to start; its entry of the boot menu shows why",
        "it was started twice and found no partition to write to, or never came so far",
        "no line 'end:': it was cut off",
        "the log ends inside the column",
        "it brought no figure",
        "no hypervisor",
        "not under PMUvisor",
        "KVM passes no port",
        "no port is known that the hypervisor traps",
        "no branch records by IA32_PERF_CAPABILITIES and CPUID",
        "fewer than 32 branch records, or not known how many",
        "no full-width counter writes: IA32_A_PMC0 does not exist",
        "CPUID shows no PMU of version 2 with a general counter",
        "an NMI that was sent did not come",
        "one processor, wanted two",
    )
    + rf"|{ENDS}|begun twice: first (?:{ENDS}), then (?:{ENDS})"
    r"|a run had \d+ PMIs, wanted \d+ within \d+ percent"
)
OTHER_WHY = "another reason, which the report on the machine has"


def known(pattern, text):
    """The words of a text that are known, in their order."""
    found = re.finditer(rf"(?<!\S)\(?(?:{pattern})[),;]*(?!\S)", text)
    return " ".join(match[0] for match in found).rstrip(",;")


def known_of(key, value):
    """The same of a value of the environment, which may have one text for each of some columns."""
    pattern = KNOWN.get(key, r"(?!)")
    if not results.EACH.match(value):
        return known(pattern, value)
    return "; ".join(
        f"{names}: {known(pattern, text)}" for names, text in results.EACH.findall(value)
    )


def known_why(why):
    return why if not why or WHY.fullmatch(why) else OTHER_WHY


def is_known(entry):
    """Whether a cell or a measurement has only names of the expected form."""
    metric = entry.get("metric", "time")
    listed = any(metric in names for names in METRICS.values())
    item_is_known = entry["item"] == "*" or NAME.fullmatch(entry["item"])
    return bool(item_is_known and (listed or METRIC.fullmatch(metric)))


def picked(entry, keys):
    return {key: value for key, value in entry.items() if key in keys}


def to_send(found):
    """Of valid results what may be sent, as results."""
    kept = {
        "schema": found["schema"],
        "tool": {
            "version": known(VERSION, found["tool"]["version"]),
            "quick": found["tool"]["quick"],
            **picked(found["tool"], ("counts",)),
        },
        "environment": {
            key: value if key == "tick" else known_of(key, value)
            for key, value in found["environment"].items()
        },
        "columns": {
            name: {
                "status": column["status"],
                "why": known_why(column["why"]),
                "detail": known(DETAIL, column["detail"]),
            }
            for name, column in found["columns"].items()
        },
        "measurements": [
            picked(entry, MEASUREMENT) for entry in found["measurements"] if is_known(entry)
        ],
        "skipped": [
            {**picked(entry, results.CELL), "why": known_why(entry["why"])}
            for entry in found["skipped"]
            if is_known(entry)
        ],
    }
    if "repetitions" in found:
        kept["repetitions"] = [picked(one, REPETITION.split()) for one in found["repetitions"]]
    return kept


def left_out(found, kept, where=""):
    """(where, what was found, what is kept) of each part that is not sent as it is."""
    if isinstance(found, dict) and isinstance(kept, dict):
        for key, value in found.items():
            yield from left_out(value, kept.get(key), f"{where}.{key}".removeprefix("."))
    elif isinstance(found, list) and isinstance(kept, list) and len(found) == len(kept):
        for at, pair in enumerate(zip(found, kept)):
            yield from left_out(*pair, f"{where}[{at}]")
    elif found != kept:
        yield where, found, kept


def check(found):
    """Raises Trouble: these results are not those of a machine that has been measured."""
    environment, ran = found["environment"], results.ok_columns(found)
    need(environment["kind"] != "emulator", "environment.kind", "emulator", "a real machine's")
    need(not found["tool"]["quick"], "tool.quick", True, "false: a quick run says too little")
    need(
        "Intel(R)".lower() in known(KNOWN["cpu"], environment["cpu"]).lower(),
        "environment.cpu",
        environment["cpu"],
        "the name of a processor of Intel's",
    )
    need(ran and found["measurements"], "columns", ran, "at least one column with measurements")
    results.check_alike(found)


def summary(found, whole):
    """What is in a file, a line for each thing; `whole`: the results that it was made of."""
    for key, what in results.ENVIRONMENT.items():
        if found["environment"].get(key) not in (None, "", 0):
            yield f"{what}: {found['environment'][key]}"
    yield f"version of this project: {found['tool']['version'] or 'not known'}"
    yield f"columns: {', '.join(results.ok_columns(found))}, with PMUvisor's options"
    yield f"figures: {len(found['measurements'])}, of " + ", ".join(
        dict.fromkeys(entry["experiment"] for entry in found["measurements"])
    )
    if "repetitions" in found:
        yield f"repetitions: {len(found['repetitions'])}"
    yield f"reasons why a figure is missing: {len(found['skipped'])}"
    missing = [where for where, _, _ in left_out(whole, found)]
    if missing:
        yield f"left out, because a word there is not known: {', '.join(missing)}"


LETTER = """\
Send it in one of two ways: a pull request that adds it (make add-machine MACHINE={file}), or an
issue of the project with the file attached. CONTRIBUTING.md says more. Words for either:

    Results of {cpu}, microcode {microcode}

    I measured PMUvisor {version} on this machine, in the columns {columns}.
    I have read the attached file. It may be published under BSD-2-Clause, the project's licence.
"""


def make(whole, file):
    """Writes what may be sent of these results; gives the lines to print. Raises Trouble: why there
    is nothing to send."""
    check(whole)
    found = to_send(whole)
    results.save(found, file)
    environment = found["environment"]
    letter = LETTER.format(
        file=file,
        cpu=environment["cpu"],
        microcode=environment["microcode"] or "not known",
        version=found["tool"]["version"] or "(version not known)",
        columns=", ".join(results.ok_columns(found)),
    )
    return [
        f"{file}: the one file to send. In it, and nothing else:",
        *(f"  {line}" for line in summary(found, whole)),
        *letter.splitlines(),
    ]


def name_of(found):
    """Of the file in results/: the kind of machine, the processor and its microcode."""
    environment = found["environment"]
    cpu = re.sub(r"\(r\)|\(tm\)|@.*", " ", environment["cpu"].lower())
    microcode = re.findall("0x[0-9a-f]+", environment["microcode"])[:1]
    ordinary = {"intel", "genuine", "cpu", "processor", "gen"}
    parts = [word for word in cpu.split() if word not in ordinary and not word.endswith("th")]
    return "-".join([environment["kind"], *parts, *microcode])


def load(file):
    """A file that somebody has sent. Raises Trouble where it is not as make() writes it."""
    found = results.load(file)
    try:
        check(found)
        for where, value, kept in left_out(found, to_send(found)):
            need(
                False, where, value, f"{json.dumps(kept)}: as make collect writes the file to send"
            )
    except results.Trouble as trouble:
        raise results.Trouble(f"{file}: {trouble}") from None
    return found


def add(file, folder=FOLDER):
    """Adds a file to those of results/; its new path."""
    found = load(file)
    for other in sorted(glob.glob(os.path.join(folder, "*.json"))):
        same = results.load(other)["measurements"] == found["measurements"]
        need(not same, file, os.path.basename(other), "results that are not there yet")
    name = name_of(found)
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    paths = (os.path.join(folder, f"{one}.json") for one in names)
    path = next(path for path in paths if not os.path.exists(path))
    results.save(found, path)
    return path


def main():
    if len(sys.argv) != 2 or not sys.argv[1]:
        sys.exit("machine_file: no file given; make add-machine MACHINE=FILE")
    try:
        print(f"machine_file: {os.path.relpath(add(sys.argv[1]))}")
    except results.Trouble as trouble:
        sys.exit(f"machine_file: {trouble}")


if __name__ == "__main__":
    main()
