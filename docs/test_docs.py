# SPDX-License-Identifier: BSD-2-Clause
# test_docs.py: the pages say nothing that the tree does not have. Run: pytest docs/
# Each check has to see a planted fault as well.
import re

import pytest

from docs import differences, options, pages, pictures

FILE_LINES = 500


def of_folder():
    """Every page, program and text of docs/, pictures apart."""
    return {
        path: pages.read(path)
        for path in pages.tree_files()
        if path.startswith("docs/") and not path.endswith(".svg")
    }


def wanted_pages(every):
    """What a reader has to find: all pages of docs/, how to contribute, and the folders' own, those
    of experiments/ and metal/ too."""
    return [path for path in every if path not in ("README.md", pages.INDEX)] + ["docs/pmuvisor.7"]


@pytest.fixture(name="every", scope="module")
def fixture_every():
    return pages.all_pages()


def expect_none(complaints):
    assert not complaints, "\n".join(complaints)


def test_no_long_file():
    expect_none(pages.long_files(of_folder(), FILE_LINES))


def test_every_page_is_reachable(every):
    expect_none(pages.unreachable(every, wanted_pages(every)))


@pytest.mark.parametrize(
    "page",
    ["docs/alone.md", "experiments/alone/more.md", "metal/alone/README.md"],
    ids=lambda page: f"alone_{page.split('/')[0]}",
)
def test_page_that_nobody_links_is_seen(every, page):
    """Nor does a link count that README.md alone has, or one of the page to itself."""
    linked = {
        **every,
        page: f"[here](../{page})",
        "README.md": every["README.md"] + f"[alone]({page})",
    }
    complaints = pages.unreachable(linked, wanted_pages(linked))
    assert len(complaints) == 1 and complaints[0].startswith(page), complaints


@pytest.mark.parametrize(
    "old, new",
    [
        ("## Understand", "## Read"),  # another group
        ("[tour](tour.md)", "tour"),  # in none
        ("## Change\n", "## Change\n\n[tour](tour.md)\n"),  # in two
    ],
    ids=["group", "none", "two"],
)
def test_fault_of_the_index_is_seen(every, old, new):
    wrong = {**every, pages.INDEX: every[pages.INDEX].replace(old, new)}
    assert wrong != every and pages.unreachable(wrong, wanted_pages(wrong))


def sums(text):
    """Of the tour's list: the sums of its columns, and what its last row says of them."""
    rows = re.findall(
        r"^\| (`\w+(?:\(\))?`|in all) +\| .*\| +(\d+) \| +(\d+) \|$", text, re.MULTILINE
    )
    found = [[int(one), int(other)] for name, one, other in rows if name != "in all"]
    return [sum(column) for column in zip(*found)], [
        [int(one), int(other)] for name, one, other in rows if name == "in all"
    ]


def test_list_of_an_exit_adds_up(every):
    """To what kernel.py wants of the ledger. Without one of its rows it does not."""
    tour = every["docs/tour.md"]
    found = re.search(
        r"^CPUID_COST = \((\d+), (\d+)\)", pages.read("tests/e2e/kernel.py"), re.MULTILINE
    )
    wanted = [int(found[1]), int(found[2])]
    assert sums(tour) == (wanted, [wanted]), f"{sums(tour)}, the ledger has {wanted}"
    without = re.sub(r"^\| `skip_instruction\(\)`.*\n", "", tour, flags=re.MULTILINE)
    assert without != tour and sums(without)[0] != wanted


def test_links_resolve(every):
    expect_none(pages.dead_links(every))


def test_files_are_there(every):
    expect_none(pages.missing_files(every))


def test_functions_are_there(every):
    expect_none(pages.missing_functions(every))


def test_lines_are_said(every):
    expect_none(pages.unsaid(every))


@pytest.mark.more
def test_commands_exist(every):
    expect_none(pages.bad_commands(every))


@pytest.mark.more
def test_words_of_e2e_match(every):
    tests = pages.e2e_tests()
    assert len(tests) > 100, tests
    expect_none(pages.unmatched_words(every, tests))


def test_commands_run(every):
    """Those of the blocks ```sh run, which are quick and change nothing."""
    lines = list(pages.commands(every, "run"))
    assert lines, "no block is marked to be run"
    for page, line in lines:
        done = pages.run(line)
        assert done.returncode == 0, f"{page}: {line}: {done.stdout[-300:]}"


@pytest.mark.parametrize("name", ["options.md", "pmuvisor.7"], ids=lambda name: f"page_{name}")
def test_generated_pages_are_current(name):
    assert (
        pages.read(f"docs/{name}") == options.pages()[name]
    ), f"docs/{name} is not what docs/options.py makes of boot/option_table.h: make docs"


def test_table_of_kernels_is_current():
    text = pages.read(f"docs/{differences.PAGE}")
    assert text == differences.page(
        text
    ), f"docs/{differences.PAGE} is not what docs/differences.py makes: make docs"
    fewer = differences.table(differences.DIFFERENCES[1:])
    assert fewer not in text and differences.table() in text


@pytest.mark.parametrize("name", sorted(pictures.texts()), ids=lambda name: f"picture_{name}")
def test_pictures_are_current(name):
    path, maker = pictures.texts()[name]
    source, svg = pictures.read(path), pages.read(f"docs/{name}.svg")
    assert pictures.is_current(svg, source), f"docs/{name}.svg is of another {path}: make docs"
    if maker is pictures.terminal:
        assert svg == pictures.mark(source) + "\n" + maker(source)


@pytest.mark.more
def test_options_check():
    """--check takes each value of each option, experiments' too, and refuses another word in its
    place."""
    for option in options.read_table() + options.experiment_options():
        for value in option.names or ([option.default] if option.kind == "NUMBER" else []):
            assert options.fault_of(f"{option.key}={value}") == "", option
        if option.kind in ("CHOICE", "NUMBER", "STEPS"):
            assert "found 'none-such'" in options.fault_of(f"{option.key}=none-such"), option
    assert all(options.fault_of(f"policy={name}") == "" for name in options.experiment_policies())
    assert "unknown option 'x'" in options.fault_of("tick=0\n# y=1\nx=1")
    assert options.fault_of("tick=0 append=a b=c") == ""


def test_options_have_help():
    """Each row is shown, with its default among its values."""
    table = options.read_table()
    assert len(table) > 10 and all(option.help.endswith(".") for option in table)
    for option in table:
        assert not option.names or option.default in option.names, option


def check_citation(text):
    """What is wrong with CITATION.cff: Citation File Format 1.2.0 wants four keys; the license is
    that of LICENSE, and the README names the same thesis."""
    keys = dict(re.findall(r"^([a-z-]+): *(.*)$", text, re.MULTILINE))
    wrong = [
        f"no {key}" for key in ("cff-version", "message", "title", "authors") if key not in keys
    ]
    if keys.get("license", "none").replace("-", " ", 1) not in pages.read("LICENSE"):
        wrong.append(f"license: {keys.get('license')}")
    thesis = re.search(r"^    title: (.+)$", text, re.MULTILINE)[1]
    if thesis not in " ".join(pages.read("README.md").split()):
        wrong.append(f"thesis: {thesis}")
    return wrong


def test_citation():
    text = pages.read("CITATION.cff")
    expect_none(check_citation(text))
    for old, new in (
        ("message:", "words:"),
        ("license: BSD-2", "license: BSD-3"),
        ("Enhancing", "Improving"),
    ):
        assert len(check_citation(text.replace(old, new, 1))) == 1, old


# ---- each check sees a fault ----


def check_reachable(every):
    """README.md does not lead to the index, which is as it is."""
    return pages.unreachable({**every, pages.INDEX: pages.read(pages.INDEX)}, [])


SEEN = """| what you see | what you do |
|---|---|
| `VMX is locked off by firmware (IA32_FEATURE_CONTROL is ...)`, or nothing | `wait` |
"""
FAULTS = {
    "lines": (lambda every: pages.long_files(every, 1), "one\ntwo\n"),
    "reachable": (check_reachable, "[glossary](docs/glossary.md)"),
    "link": (pages.dead_links, "[gone](docs/gone.md)"),
    "anchor": (pages.dead_links, "# Head\n[gone](#tail)"),
    "path": (pages.missing_files, "see `nmi/gone.c`"),
    "pattern": (pages.missing_files, "see `nmi/gone_*.c`"),
    "name": (pages.missing_files, "see `gone.asm`"),
    "function": (pages.missing_functions, "`gone_function()`"),
    "function of a file": (pages.missing_functions, "`nmi/nmi.c:nmi_hold()`"),
    "file of a function": (pages.missing_functions, "`nmi/gone.c:nmi_root()`"),
    "line": (pages.unsaid, SEEN.replace("locked off", "locked out")),
    "target": (pages.bad_commands, "```sh\nmake gone\n```\n"),
    "word": (lambda every: pages.unmatched_words(every, ["a/b"]), '`make e2e T="a/ gone/"`'),
    "option": (pages.bad_commands, "```sh\n./run-qemu.sh --gone\n```\n"),
    "program": (pages.bad_commands, "```sh\nbench/gone.py\n```\n"),
}
SOUND = f"""# Head

[glossary](docs/glossary.md#glossary) [here](#head) [far](https://example.org/x)
`nmi/nmi.c`, `nmi/*.c`, `entry.asm`, `nmi/nmi.c:nmi_root()`, `nmi_unblock()`, `EFI/pmuvisor/x.c`

```sh run
make help      # and more
GUEST=stock ./run-qemu.sh --cpus 2
```

{SEEN}"""


@pytest.mark.parametrize("name", FAULTS, ids=lambda name: f"fault_{name.replace(' ', '_')}")
def test_fault_is_seen(name):
    check, text = FAULTS[name]
    assert len(check({"README.md": text})) == 1


@pytest.mark.parametrize(
    "check",
    [
        pages.dead_links,
        pages.missing_files,
        pages.missing_functions,
        pages.unsaid,
        pages.bad_commands,
    ],
    ids=lambda check: f"sound_{check.__name__}",
)
def test_sound_page_passes(check, every):
    expect_none(
        [line for line in check({**every, "README.md": SOUND}) if line.startswith("README.md")]
    )


def test_old_page_is_seen(tmp_path):
    """Another default in the table is another page, and another text another picture."""
    for folder in ("boot", "include"):
        (tmp_path / folder).mkdir()
        for path in pages.tree_files():
            if path.startswith(folder + "/") and path.endswith(".h"):
                (tmp_path / path).write_text(
                    pages.read(path).replace("TICK_DEFAULT_MS 100", "TICK_DEFAULT_MS 101"),
                    encoding="utf-8",
                )
    now, other = options.pages(), options.pages(str(tmp_path))
    assert all(now[name] != other[name] for name in now)
    assert not pictures.is_current(pictures.mark("a"), "b")
