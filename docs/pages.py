# SPDX-License-Identifier: BSD-2-Clause
# pages.py: what the pages of the tree say, and what is wrong with it. Each check takes pages,
# {path from the top: text}, and gives complaints, one line each. Nothing is written.
import functools
import glob
import os
import re
import shlex
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PASSED_OVER = {"build", "out", "__pycache__"}  # and .git and the like
CODE = (".c", ".h", ".asm", ".cc", ".py")
# Names that are no files of the tree: what is built, measured or installed, and the guest's.
MADE = {"build", "bench/out", "bench/build.txt", "boot/grub", "boot/efi"}
NAMED = {
    "pmuvisor.cfg",
    "local.cfg",
    "custom.cfg",
    "results.json",
    "report.html",
    "part.json",
    "columns.cfg",
    "mine.c",
    "msrs.def",
    "build.txt",
    "facts.txt",
    "plan.cfg",
    "clock.txt",
    "clock2.txt",
    "JOB.txt",
}
# Folders that may be taken away, each with the pages of docs/ that are of it alone.
REMOVABLE = {"metal": {"docs/metal.md", "docs/server.md"}, "experiments": set()}
# The index, and the groups that it has.
INDEX = "docs/README.md"
GROUPS = ["Use", "Understand", "Change"]
GONE = {folder for folder in REMOVABLE if not os.path.isdir(os.path.join(TOP, folder))}
NOT_ASKED = {page for folder in GONE for page in REMOVABLE[folder]}
# In the place of a name, as in tests/fuzz/NAME.c.
PLACEHOLDER = re.compile(r"\bNAME\b|_NAME\b")
FILE_ENDINGS = r"c|h|asm|inc|cc|py|sh|mk|md|cfg|dot|svg|txt|json|pml|patch|ld|asl|lua"

FENCE = re.compile(r"^```(.*?)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FUNCTION = re.compile(r"(?:([\w./-]+):)?(\w+)\(\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
PROGRAMS = {
    "git",
    "apt",
    "lsblk",
    "apt-get",
    "cat",
    "cd",
    "dd",
    "gcc",
    "man",
    "openssl",
    "pytest",
    "reboot",
    "sudo",
}  # of the system


def tree_files():
    for folder, folders, files in os.walk(TOP):
        folders[:] = sorted(
            name for name in set(folders) - PASSED_OVER if not name.startswith(".") or name == ".ci"
        )
        for name in sorted(files):
            yield os.path.relpath(os.path.join(folder, name), TOP)


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def all_pages():
    return {path: read(path) for path in tree_files() if path.endswith(".md")}


def prose(text):
    """Without blocks of code, in which a bracket is no link."""
    return FENCE.sub("", text)


def resolve(page, target):
    """A link's target, as a path from the top."""
    return os.path.normpath(os.path.join(os.path.dirname(page), target))


def links(page, text):
    """(target from the top, anchor) of every link that does not leave the tree."""
    for target in LINK.findall(prose(text)):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield (resolve(page, path) if path else page), anchor


def anchors(text):
    """The names that a page's headings have as targets of links."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(prose(text))
    } | set(re.findall(r'<a id="([^"]+)">', text))


# ---- checks ----


def long_files(files, limit):
    """files: {path: text}."""
    return [
        f"{path} has {text.count(chr(10))} lines, wanted at most {limit}"
        for path, text in files.items()
        if text.count("\n") > limit
    ]


def reached(pages, front):
    """All that links lead to from the pages of `front`, which are among it."""
    front = list(front)
    seen = set(front)
    while front:
        page = front.pop()
        for target, _ in links(page, pages.get(page, "")):
            # A folder shows its folders' pages.
            shown = re.compile(re.escape(target) + r"/[^/]+/README\.md")
            for found in {target, *filter(shown.fullmatch, pages)} - seen:
                seen.add(found)
                front.append(found)
    return seen


def groups(pages):
    """{group: what the index links in it}."""
    sections = re.split(r"^## (.*)$", pages.get(INDEX, ""), flags=re.MULTILINE)[1:]
    return {
        name: {target for target, _ in links(INDEX, text)} - {INDEX, "README.md"}
        for name, text in zip(sections[::2], sections[1::2])
    }


def unreachable(pages, wanted):
    """Pages of `wanted` that no way of links leads to: from README.md to the index, from one of its
    groups on. A page of docs/ itself is in a group, and in one alone."""
    out = []
    found = groups(pages)
    if INDEX not in {target for target, _ in links("README.md", pages["README.md"])}:
        out.append(f"README.md: has no link to {INDEX}")
    if list(found) != GROUPS:
        out.append(f"{INDEX}: has the groups {', '.join(found)}, wanted {', '.join(GROUPS)}")
    # README.md has links of its own, which are not a group's.
    others = {page: text for page, text in pages.items() if page not in (INDEX, "README.md")}
    ways = set().union(*(reached(others, targets) for targets in found.values()))
    for page in wanted:
        count = sum(page in targets for targets in found.values())
        if os.path.dirname(page) == "docs" and count != 1:
            out.append(f"{page}: is in {count} groups of {INDEX}, wanted in one")
        elif page not in ways:
            out.append(f"{page}: no group of {INDEX} leads to it")
    return out


def dead_links(pages):
    out = []
    for page, text in pages.items():
        for target, anchor in links(page, text):
            if target.split("/")[0] in GONE:
                continue
            if not os.path.exists(os.path.join(TOP, target)):
                out.append(f"{page}: link to {target}, which is not there")
            elif anchor and anchor not in anchors(pages.get(target, "")):
                out.append(f"{page}: link to {target}#{anchor}, a heading that is not there")
    return out


def is_there(page, path):
    """A path or a pattern, from the top or from the page's folder."""
    places = (os.path.join(TOP, path), os.path.join(TOP, os.path.dirname(page), path))
    return any(glob.glob(place) for place in places)


def missing_files(pages):
    """Names in backticks that look like paths: `folder/...` of the tree, or `name.c`."""
    tops = {name for name in os.listdir(TOP) if os.path.isdir(os.path.join(TOP, name))}
    names = {os.path.basename(path) for path in tree_files()}
    out = []
    for page, text in pages.items():
        for span in SPAN.findall(prose(text) if page not in NOT_ASKED else ""):
            path = FUNCTION.sub(lambda match: match[1] or "", span)
            if (
                not re.fullmatch(r"[\w./*+-]+", path)
                or path.startswith("/")
                or PLACEHOLDER.search(path)
            ):
                continue
            if any(path == made or path.startswith(made + "/") for made in MADE):
                continue
            if path.split("/")[0] in tops and "/" in path:
                if not is_there(page, path.rstrip("/")):
                    out.append(f"{page}: `{span}` is not in the tree")
            elif (
                re.fullmatch(rf"[\w*+-]+\.({FILE_ENDINGS})", path)
                and path not in NAMED
                and path not in names
                and not is_there(page, path)
            ):
                out.append(f"{page}: `{span}`: the tree has no such file")
    return out


def defines(text, name):
    """C: a definition begins at the margin and has a body, or is a macro; NASM: a label."""
    return (
        re.search(
            rf"^[A-Za-z_][^;={{}}\n]*\b{name}\([^;{{}}]*\)\s*\{{|^#define {name}\(|^{name}:",
            text,
            re.MULTILINE,
        )
        is not None
    )


def missing_functions(pages):
    """`file:function()` has to be in that file, `function()` in some file of the tree."""
    code = None
    out = []
    for page, text in pages.items():
        for span in SPAN.findall(prose(text)):
            match = FUNCTION.fullmatch(span)
            if not match or PLACEHOLDER.search(span):
                continue
            path, name = match.groups()
            if path:
                if not os.path.isfile(os.path.join(TOP, path)) or not defines(read(path), name):
                    out.append(f"{page}: {path} has no function {name}()")
                continue
            if code is None:
                code = [read(path) for path in tree_files() if path.endswith(CODE)]
            if not any(defines(text, name) or f"def {name}(" in text for text in code):
                out.append(f"{page}: no file has a function {name}()")
    return out


SEEN = re.compile(r"^\| what you see \|.*\n\|[-| ]+\|\n((?:\|.*\n)+)", re.MULTILINE)


@functools.lru_cache(None)
def said():
    """The text of all programs of the tree. A literal of several lines is one there, and a line end
    is a blank."""
    code = "\n".join(
        re.sub(r'"[ \t]*\n\s*"', "", read(path)) if path.endswith((".c", ".h")) else read(path)
        for path in tree_files()
        if path.endswith((*CODE, ".sh", ".cfg")) and not path.startswith("docs/")
    )
    return " ".join(re.sub(r'"[ \t]*\\?\n\s*"', " ", code).replace('\\"', '"').split())


def unsaid(pages):
    """Of a table with the head `what you see`: each quoted line of its first column is some
    program's, apart from each `...`."""
    return [
        f"{page}: no program says `{part.strip()}`"
        for page, text in pages.items()
        if page not in NOT_ASKED
        for rows in SEEN.findall(text)
        for row in rows.splitlines()
        for span in SPAN.findall(row.split(" | ")[0])
        for part in span.split("...")
        if part.strip() not in said()
    ]


def commands(pages, word):
    """(page, line) of the blocks ```sh that have this word after it, or of all with None."""
    for page, text in pages.items():
        for info, block in FENCE.findall(text):
            kinds = info.split()
            if kinds[:1] == ["sh"] and (word is None or word in kinds[1:]):
                for line in block.splitlines():
                    if line.strip() and not line.startswith("#"):
                        yield page, line


def run(line, timeout=600):
    """As a user would: not as a part of the make that runs the tests, and with Debian's Python."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MAKE") and name != "MFLAGS"
    }
    environment["PATH"] = f"/usr/bin:{environment['PATH']}"
    return subprocess.run(
        line,
        shell=True,
        cwd=TOP,
        stdin=subprocess.DEVNULL,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout,
        check=False,
        env=environment,
    )


@functools.lru_cache(None)
def bad_command(line):
    """Why a line of a ```sh block cannot be right; "" where nothing speaks against it."""
    words = shlex.split(line, comments=True)
    while words and re.fullmatch(r"\w+=.*", words[0]):
        words.pop(0)
    if words[:2] == ["python3", "-m"]:
        words[:3] = [words[2].replace(".", "/") + ".py"]
        there = os.path.isfile(os.path.join(TOP, words[0]))
    else:
        there = words and os.access(os.path.join(TOP, words[0]), os.X_OK)
    if not words or words[0] in PROGRAMS:
        return ""
    if words[0] == "make":
        done = run(shlex.join(["make", "-n", *words[1:]]))
        return "" if done.returncode == 0 else (done.stdout.strip().splitlines() or ["fails"])[-1]
    if not there:
        return f"there is no program {words[0]}"
    if words[0].startswith("build/"):
        return ""
    text = read(words[0])
    unknown = [
        word
        for word in words[1:]
        if word.startswith("--")
        and not re.search(rf"{re.escape(word.split('=')[0])}\b", text)
        and word != "--help"
    ]
    return f"{words[0]} has no option {unknown[0]}" if unknown else ""


@functools.lru_cache(None)
def e2e_tests(full=1):
    """What `make e2e` runs, by the names that pytest gives; with full=1 the long tests too."""
    folders = " ".join(
        [
            "tests/e2e",
            *glob.glob("metal/tests", root_dir=TOP),
            *sorted(glob.glob("experiments/*/tests", root_dir=TOP)),
        ]
    )
    done = run(
        f"MORE=1 FULL={full} {shlex.quote(sys.executable)} -B -m pytest -q --collect-only {folders}"
    )
    return re.findall(r"^\S+\.py::.+$", done.stdout, re.MULTILINE)


def test_names(full=1):
    """group/test of each of them: the file's name and the test's, both without test_, and once more
    with its parameters in the test's place."""
    found = re.findall(
        r"^\S*/test_(\w+)\.py::test_(\w+)(?:\[(.*)\])?$", "\n".join(e2e_tests(full)), re.MULTILINE
    )
    return [
        f"{file}/{name}"
        for file, test, given in found
        for name in dict.fromkeys((test, given or test))
    ]


E2E = re.compile(r"(FULL=1 )?make e2e\s+T=(?:\"([^\"]*)\"|([^\s`\"]+))")


def selected(words, tests):
    """Those of the tests that `make e2e T=words` runs (tests/tests.mk, WORD)."""
    alternatives = [word.lower().split("/") for word in words.split()]
    return [
        test
        for test in tests
        if any(all(part in test.lower() for part in parts) for parts in alternatives)
    ]


def unmatched_words(pages, tests):
    """`make e2e T="word ..."`: each word has to be in the name of a test."""
    out = []
    for page, text in pages.items():
        for _, quoted, plain in E2E.findall(text):
            out += [
                f"{page}: make e2e T={word}: no test has that word in its name"
                for word in (quoted or plain).rstrip(")").split()
                if word not in ("word", "...", "group/name") and not selected(word, tests)
            ]
    return out


def bad_commands(pages):
    out = []
    for page, line in commands(pages, None):
        trouble = page not in NOT_ASKED and bad_command(line)
        if trouble:
            out.append(f"{page}: {line.strip()}: {trouble}")
    return out
