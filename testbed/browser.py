# SPDX-License-Identifier: BSD-2-Clause
# browser.py: a page in chromium, headless, with a mouse and keys that are the browser's own: what
# covers a button takes the click. It is driven by the DevTools protocol over a pipe: chromium reads
# its file descriptor 3 and writes 4, and each message is JSON that ends with a zero byte.
# https://chromedevtools.github.io/devtools-protocol/
import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess

import pytest

CHROMIUM = shutil.which("chromium")
BACKSTOP_SECONDS = 600  # for one answer: a busy machine takes long
NUMBERS_FROM = 10  # of file descriptors that are not chromium's
SHIFT = 8  # Input.dispatchMouseEvent's modifiers
# Where an element is in the window, after it was scrolled there; and whether something covers it.
PLACE = """(() => {
  const found = document.querySelector(%s);
  if (!found) return null;
  found.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
  const box = found.getBoundingClientRect();
  const x = box.left + box.width / 2, y = box.top + box.height / 2;
  const top = document.elementFromPoint(x, y);
  return [x, y, top !== null && found.contains(top)];
})()"""


def pipe():
    """Gives a pipe's two ends, with numbers that are none of chromium's two."""
    ends = os.pipe()
    above = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, NUMBERS_FROM) for end in ends]
    for end in ends:
        os.close(end)
    return above


class Page:
    """One page. `wrong`: errors and warnings of the page; `requests`: addresses that it asked for,
    of what is not in it."""

    def __init__(self, folder):
        if not CHROMIUM:
            pytest.skip("chromium is missing; run: testbed/deps.sh check")
        self.wrong, self.requests, self.count, self.read = [], [], 0, b""
        (there, self.to), (self.out, back) = pipe(), pipe()
        # The shell gives the two pipes the numbers that chromium wants.
        self.process = subprocess.Popen(
            [
                "bash",
                "-c",
                f'exec "$@" 3<&{there} 4>&{back}',
                "bash",
                CHROMIUM,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--remote-debugging-pipe",
                "--force-color-profile=srgb",
                f"--user-data-dir={folder / 'profile'}",
                "about:blank",
            ],
            pass_fds=(there, back),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(there)
        os.close(back)
        self.session = None
        target = next(
            one["targetId"]
            for one in self.ask("Target.getTargets")["targetInfos"]
            if one["type"] == "page"
        )
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def close(self):
        os.close(self.to)
        os.close(self.out)
        self.process.kill()
        self.process.wait()

    # ---- the protocol ----

    def message(self):
        while b"\0" not in self.read:
            ready, _, _ = select.select([self.out], [], [], BACKSTOP_SECONDS)
            data = os.read(self.out, 1 << 16) if ready else b""
            assert data, "chromium has ended, or does not answer"
            self.read += data
        text, _, self.read = self.read.partition(b"\0")
        return json.loads(text)

    def ask(self, method, **words):
        """Takes a command; gives what it returns. What the page reports in between is kept."""
        self.count += 1
        wanted = {"id": self.count, "method": method, "params": words}
        if self.session:
            wanted["sessionId"] = self.session
        os.write(self.to, json.dumps(wanted).encode() + b"\0")
        while True:
            found = self.message()
            if found.get("id") == self.count:
                assert "error" not in found, (method, found["error"])
                return found["result"]
            self.note(found)

    def note(self, event):
        method, words = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.wrong.append(words["exceptionDetails"]["exception"].get("description", str(words)))
        elif method == "Runtime.consoleAPICalled" and words["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.wrong.append(str(words["args"]))
        elif method == "Log.entryAdded":
            self.wrong.append(words["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not words["request"]["url"].startswith(
            "data:"
        ):
            self.requests.append(words["request"]["url"])

    # ---- the page ----

    def open(self, file, width, height=900, fragment=""):
        """Opens a file in a window so wide and high."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.ask("Page.navigate", url="about:blank")
        self.wrong.clear()
        self.requests.clear()
        self.ask("Page.navigate", url=f"file://{file}{fragment}")
        self.value(
            "new Promise((done) => document.readyState === 'complete' ? done() : "
            "window.addEventListener('load', done))"
        )
        self.settle()

    @contextlib.contextmanager
    def opened(self, file, width):
        """The same; afterwards nothing may have been wrong, asked for, or wider than the window."""
        self.open(file, width)
        yield
        self.settle()
        assert self.wrong == [] and self.requests == [f"file://{file}"]
        assert self.value("document.documentElement.scrollWidth") <= width

    def value(self, expression):
        """What an expression is in the page; a promise is waited for."""
        found = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, (expression, found["exceptionDetails"])
        return found["result"].get("value")

    def settle(self):
        """Waits until what has changed is drawn."""
        self.value(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def place(self, selector):
        """The middle of an element, in the window."""
        found = self.value(PLACE % json.dumps(selector))
        assert found, f"{selector} is not in the page"
        assert found[2], f"{selector} is covered, or has no area"
        return found[:2]

    def mouse(self, kind, x, y, **more):
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def move(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.settle()

    def click(self, selector):
        self.drag(*[self.place(selector)] * 2)

    def drag(self, start, end, modifiers=0):
        """Presses at a place, moves to another, releases."""
        self.mouse("mouseMoved", *start, modifiers=modifiers)
        for kind, (x, y), buttons in (
            ("mousePressed", start, 1),
            ("mouseMoved", end, 1),
            ("mouseReleased", end, 0),
        ):
            self.mouse(
                kind, x, y, modifiers=modifiers, button="left", buttons=buttons, clickCount=1
            )
        self.settle()

    def wheel(self, x, y, by):
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=by)
        self.settle()

    def key(self, name):
        """Presses a key that has no letter, or one that has."""
        text = {"text": name} if len(name) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=name, **text)
        self.settle()

    def type(self, text):
        """Into what has the focus."""
        self.ask("Input.insertText", text=text)
        self.settle()

    def picture(self, file, whole=True):
        """Writes what the window shows, or the whole page, as PNG."""
        found = self.ask("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))
