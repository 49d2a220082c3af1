# SPDX-License-Identifier: BSD-2-Clause
# test_instructions.py: docs/entries.md has tests that exist in each row. docs/instructions.md, or a
# page of an experiment, has a row for each function of the hypervisor that completes an instruction
# for the guest, lets the guest execute it again, or gives the guest an event, and no other; and
# each row has tests that exist.
import re

from bench.environment import without_comments
from docs import pages

PAGE = "docs/instructions.md"
SOURCE = re.compile(r"(?:(?:vmx|nmi|apic|pmu|guest|mm)/|experiments/\w+/hypervisor/).*\.[ch]$")
EXPERIMENT_PAGE = re.compile(r"experiments/\w+/\w+\.md$")
# What does one of these, and the fields by which a function could do it by itself.
DOES = re.compile(
    r"\b(?:skip_instruction|skip_bytes|reexecute_instruction|inject_(?:gp|df|ud|nmi|gp_or_df)|"
    r"deliver_\w+)\(|"
    r"(?:\bvmcs_write_\w+\(\s*|\{)VMCS_(?:ENTRY_INTERRUPTION_INFORMATION|GUEST_RIP|"
    r"GUEST_PENDING_DEBUG_EXCEPTIONS)\b"
)
# They are what it is done by, or begin a guest, or mend what an entry refused.
BY = {
    "vmx/exit/outcome.h": None,
    "vmx/exit/outcome.c": None,
    "nmi/exit.c": {"inject_nmi"},
    "vmx/exit/init_sipi.c": {"guest_set_init_state", "exit_sipi"},
    "vmx/start/vmcs_setup.c": {"set_linux_entry_state"},
    "vmx/exit/exit.c": {"wrap_eip"},
}
ROW = re.compile(r"^\| `([\w/]+\.\w+):(\w+)\(\)` \|[^|\n]*\| ([^|\n]+) \|$", re.MULTILINE)


def functions(text):
    """(name, body) of each function: what follows a line that begins one, to the next such line."""
    for block in re.split(r"^(?=\w)", text, flags=re.MULTILINE):
        head, brace, body = block.partition("{")
        name = re.search(r"(\w+)\(", head)
        if brace and name:
            yield name[1], body


def places(sources):
    """file:function of all that do it, of {path: text}."""
    found = set()
    for name, text in sources.items():
        by = BY.get(name, set())
        if by is None:
            continue
        found |= {
            (name, function)
            for function, body in functions(without_comments(text, False))
            if DOES.search(body) and function not in by
        }
    return found


def sources():
    return {name: pages.read(name) for name in pages.tree_files() if SOURCE.match(name)}


def all_pages():
    return "\n".join(
        pages.read(name) for name in [PAGE, *filter(EXPERIMENT_PAGE.match, pages.tree_files())]
    )


def complaints(found, page, tests):
    rows = {(file, function): words.split() for file, function, words in ROW.findall(page)}
    out = [f"{file}:{function}() has no row" for file, function in sorted(found - rows.keys())]
    out += [
        f"{file}:{function}() has a row, and does none of it"
        for file, function in sorted(rows.keys() - found)
    ]
    return out + [
        f"{function}: there is no test {word}"
        for (_, function), words in rows.items()
        for word in words
        if word not in tests
    ]


def test_each_place_has_a_row_with_tests():
    every, page, tests = sources(), all_pages(), set(pages.test_names())
    found = places(every)
    assert len(found) >= 20, found  # without an experiment
    assert not complaints(found, page, tests), "\n".join(complaints(found, page, tests))
    # A caller more, one less, and a test that is not there.
    more = every | {
        "vmx/exit/more.c": "void exit_more(struct cpu *cpu)\n{\n    skip_instruction(cpu);\n}\n"
    }
    assert complaints(places(more), page, tests) == ["vmx/exit/more.c:exit_more() has no row"]
    assert complaints(found - {("vmx/exit/cpuid.c", "exit_cpuid")}, page, tests) == [
        "vmx/exit/cpuid.c:exit_cpuid() has a row, and does none of it"
    ]
    assert complaints(found, page, tests - {"instruction/invd"}) == [
        "exit_invd: there is no test instruction/invd"
    ]


ENTRIES = "docs/entries.md"
# SDM Vol. 3, "Checks on the Guest State Area"; the last: of "Checks on VMX Controls".
SECTIONS = [
    "Checks on Guest Control Registers, Debug Registers, and MSRs",
    "Checks on Guest Segment Registers",
    "Checks on Guest Descriptor-Table Registers",
    "Checks on Guest RIP, RFLAGS, and SSP",
    "Checks on Guest Non-Register State",
    "Checks on Guest Page-Directory-Pointer-Table Entries",
    "VM-Entry Control Fields",
]
ANSWER = re.compile(r"no: |\*\*yes\*\*: ")


def entry_complaints(page, tests):
    """What is wrong with the table of what VM entries check."""
    parts = re.split(r"^## (.*)\n", page, flags=re.MULTILINE)[1:]
    out = [] if parts[::2] == SECTIONS else [f"the sections are {parts[::2]}, wanted {SECTIONS}"]
    for title, text in zip(parts[::2], parts[1::2]):
        rows = [
            line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")
        ][2:]
        out += [f"{title}: no row"] if not rows else []
        for row in rows:
            if len(row) != 3 or not ANSWER.match(row[1]):
                out.append(
                    f"{title}: {row[0]}: wanted a check, yes or no with its reason, and tests"
                )
            elif not row[2].startswith("none: "):
                out += [
                    f"{row[0]}: there is no test {word}"
                    for word in row[2].split()
                    if word not in tests
                ]
    return out


def test_each_check_of_entries_has_tests():
    page, tests = pages.read(ENTRIES), set(pages.test_names())
    assert not entry_complaints(page, tests), "\n".join(entry_complaints(page, tests))
    # A test that is not there, a row without an answer, a section without a row.
    assert entry_complaints(page, tests - {"entry/pdpte"}) == [
        "PDPTEs with PAE paging: reserved bits: there is no test entry/pdpte"
    ]
    assert (
        len(entry_complaints(page.replace("**yes**", "perhaps"), tests))
        == page.count("**yes**")
        > 0
    )
    assert entry_complaints(re.sub(r"^\| GDTR.*\n", "", page, flags=re.MULTILINE), tests) == [
        "Checks on Guest Descriptor-Table Registers: no row"
    ]
