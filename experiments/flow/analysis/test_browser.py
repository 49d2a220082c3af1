# SPDX-License-Identifier: BSD-2-Clause
# test_browser.py: the time line in a real browser, headless: what is drawn is what went in,
# buttons, keys, wheel and pointer do what they say, and nothing is an error or a request.
import html
import json
import re
import shutil
import subprocess

import pytest

from hand_made import A, A_STACK, B, B_STACK, cpuid, halt, load, source, tick, wake
from states import timeline
import timeline_page
import trace_source

BROWSER = shutil.which("chromium")
SECONDS = 120
KHZ = 1_000_000
RECORDS = [[load(1000, A, B_STACK), tick(1500, A), load(1600, B, A_STACK), halt(2000, B),
            wake(3000, B), load(3100, A, 0x10), cpuid(3500, A)],
           [cpuid(1200, B), cpuid(1900, B)]]
# Runs in the page before its own script, and after it.
BEFORE = """<script>
window.wrong = [];
window.addEventListener("error", (event) => window.wrong.push(event.message));
console.error = console.warn = (...words) => window.wrong.push(words.join(" "));
</script>"""
AFTER = """<script>
(function () {
  const page = window.timeline, view = document.getElementById("view"), found = {};
  const box = () => view.getBoundingClientRect();
  const tip = document.getElementById("tip");
  const key = (name) => view.dispatchEvent(
    new KeyboardEvent("keydown", {key: name, bubbles: true}));
  const press = (name) => document.querySelector(`[data-action=${name}]`).click();
  const pointer = (kind, x, y, more) => view.dispatchEvent(new PointerEvent(kind, {
    clientX: box().left + x, clientY: box().top + y, pointerId: 1, bubbles: true, ...more}));
  view.setPointerCapture = () => {};  // a made event has no pointer that could be captured
  found.rows = page.rows();
  found.states = Object.fromEntries(found.rows.map((row) => [row, page.states(row)]));
  found.width = view.clientWidth;
  found.colours = Object.fromEntries(["running", "root", "idle", "waiting", "preempted"].map(
    (state) => [state, getComputedStyle(document.documentElement).getPropertyValue("--" + state)]));
  found.whole = page.range();
  // The colour at the middle of each interval of each row: the axis has 26 pixels, a row 24.
  found.pixels = found.rows.map((row, n) => page.states(row).map(([from, to]) =>
    page.pixel((from + to) / 2 / found.whole[1] * view.clientWidth, 26 + 24 * n + 4)));
  const x = AT / found.whole[1] * view.clientWidth;
  pointer("pointermove", x, 26 + 12);
  found.hidden = tip.hidden;
  found.hover = tip.textContent;
  pointer("pointerleave", x, 26 + 12);
  found.left = tip.hidden;
  press("in"); found.in = page.range();
  press("right"); found.right = page.range();
  press("whole"); found.again = page.range();
  key("+"); found.key = page.range();
  key("Home");
  view.dispatchEvent(new WheelEvent(
    "wheel", {deltaY: -400, clientX: box().left, cancelable: true}));
  found.wheel = page.range();
  pointer("pointerdown", 300, 40); pointer("pointermove", 200, 40); pointer("pointerup", 200, 40);
  found.drag = page.range();
  found.wrong = window.wrong;
  found.requests = performance.getEntriesByType("resource").map((one) => one.name);
  const out = document.createElement("pre");
  out.id = "found";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
})();
</script>"""


def shown(tmp_path, page, at):
    """Opens the page in the browser with the script above; gives what that found."""
    script = AFTER.replace("AT", str(at))
    file = tmp_path / "page.html"
    page = page.replace("<head>", "<head>" + BEFORE, 1)
    assert BEFORE in page
    file.write_text(page.replace("</body>", script + "</body>", 1) if "</body>" in page
                    else page + script)
    done = subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900",
         f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"file://{file}"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=SECONDS, check=False)
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stdout[-500:]
    return json.loads(html.unescape(found[1]))


@pytest.fixture(scope="module", name="page")
def make_page(tmp_path_factory):
    if not BROWSER:
        pytest.skip("chromium is not installed")
    made = source(trace_source.TRACE_FLOW, *RECORDS, tsc_khz=KHZ)
    line = timeline(made)
    at = next(record.time for record in line.records[0] if record.reason == "CPUID")
    return line, shown(tmp_path_factory.mktemp("browser"),
                       timeline_page.html(made, line, "Two & <processes>"), at)


def test_rows_and_states(page):
    """Processors and processes are rows, and each interval is the state machine's."""
    line, found = page
    expected = {f"Processor {number}": intervals for number, intervals in line.processors.items()}
    expected.update({f"cr3 {key:#x}": process.intervals for key, process in line.processes.items()})
    assert sorted(found["rows"]) == sorted(expected)
    for row, intervals in expected.items():
        assert found["states"][row] == [[one.start, one.end, one.state] for one in intervals], row
    assert {one.state for one in line.processes[A].intervals} >= {"running", "preempted"}
    return f"{len(expected)} rows"


def test_drawn(page):
    """The canvas has the state's colour where the state is, if it is wide enough to be seen."""
    _, found = page
    colours, seen = {}, set()
    for state, text in found["colours"].items():
        digits = text.strip().lstrip("#")
        colours[state] = [int(digits[at:at + 2], 16) for at in (0, 2, 4)]
    for row, pixels in zip(found["rows"], found["pixels"]):
        for (start, end, state), pixel in zip(found["states"][row], pixels):
            if state in colours and (end - start) * found["width"] / found["whole"][1] > 5:
                assert pixel[:3] == colours[state], (row, start, state, pixel)
                seen.add(state)
    assert {"running", "idle", "preempted"} <= seen, seen


def test_hover(page):
    """Under the pointer is the record: reason, RIP, CR3; and it goes with the pointer."""
    _, found = page
    assert not found["hidden"] and found["left"]
    for word in ("Processor 0", "CPUID", "0x401000", hex(A)):
        assert word in found["hover"], found["hover"]


def test_zoom_and_pan(page):
    """Buttons, keys, wheel and drag change what is in view, each in its direction."""
    line, found = page
    whole = [0, line.end]
    assert found["whole"] == found["again"] == whole
    assert found["in"] == found["key"] == [line.end / 4, line.end * 3 / 4]
    assert found["right"] == [line.end * 3 / 8, line.end * 7 / 8]
    assert found["wheel"][0] == 0 and found["wheel"][1] < line.end
    assert found["drag"][0] > 0, found["drag"]
    length = [found[name][1] - found[name][0] for name in ("wheel", "drag")]
    assert length[0] == pytest.approx(length[1])


def test_nothing_is_wrong(page):
    """No error, no warning, no request of anything outside the page."""
    _, found = page
    assert found["wrong"] == [] and found["requests"] == []
