# SPDX-License-Identifier: BSD-2-Clause
# browser.py: a browser for tests of pages: chromium without a window, by Selenium. A plugin of
# pytest with the fixture `browser`.
import contextlib
import shutil

import pytest

MISSING = "Selenium or its driver is missing; run: testbed/deps.sh check"
# Waits until what has changed is drawn.
DRAWN = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"


class Browser:
    """`driver`: Selenium's."""

    def __init__(self, driver, actions):
        self.driver, self.actions = driver, actions

    @contextlib.contextmanager
    def opened(self, file, width, height=900, fragment=""):
        """Opens a file in a window so wide and high. Afterwards the page may have reported no
        error, have asked for nothing, and be no wider than the window."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get(f"file://{file}{fragment}")
        self.settle()
        yield
        self.settle()
        assert self.driver.get_log("browser") == []
        assert self.value("performance.getEntriesByType('resource').map((one) => one.name)") == []
        assert self.value("document.documentElement.scrollWidth") <= width

    def value(self, expression):
        return self.driver.execute_script(f"return {expression}")

    def settle(self):
        self.driver.execute_async_script(DRAWN)

    def element(self, selector):
        return self.driver.find_element("css selector", selector)

    def scrolled_to(self, selector):
        found = self.element(selector)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
        return found

    def click(self, selector):
        """Selenium refuses to click what is covered."""
        self.scrolled_to(selector).click()
        self.settle()

    def pointer(self, selector, *places, drag=False):
        """Moves to places in an element, which are (x, y) from its top left corner. `drag`: with
        the button down from the first one to the last."""
        found = self.scrolled_to(selector)
        width, height = found.size["width"], found.size["height"]
        chain = self.actions(self.driver, duration=50)
        for place, (x, y) in enumerate(places):
            chain.move_to_element_with_offset(found, round(x - width / 2), round(y - height / 2))
            if drag and place == 0:
                chain.click_and_hold()
        if drag:
            chain.release()
        chain.perform()
        self.settle()

    def rows(self, table):
        """The texts of a table's cells, row by row."""
        return self.value(
            f"Array.from(document.querySelectorAll('[data-table={table}] tbody tr'), "
            "(row) => Array.from(row.cells, (cell) => cell.textContent))"
        )

    def sort(self, table, column):
        self.click(f"[data-table={table}] th:nth-child({column + 1}) button")


@pytest.fixture(scope="session")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason=MISSING)
    chromedriver = shutil.which("chromedriver")
    if not chromedriver:
        pytest.skip(MISSING)
    options = webdriver.ChromeOptions()
    for word in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{word}")
    options.add_argument("--hide-scrollbars")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=webdriver.chrome.service.Service(chromedriver)
    )
    yield Browser(driver, webdriver.ActionChains)
    driver.quit()
