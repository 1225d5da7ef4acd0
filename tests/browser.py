"""Chromium, driven by a test: what it shows, what it complains about, and what it asks of whom."""

import base64
import json
import shutil
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
MISSING = (
    "no Chromium with its driver here: make browser installs them where it can" if not (CHROMIUM and DRIVER) else ""
)

ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--disable-background-networking", "--window-size=1280,900",
)  # fmt: skip


def wait(condition, seconds=60):
    """Until something holds; while a page is being loaded, what is asked of it may fail."""
    from selenium.common.exceptions import WebDriverException

    end = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except (WebDriverException, IndexError):
            pass
        assert time.monotonic() < end
        time.sleep(0.05)


@dataclass
class Browser:
    """A page in a window of its own."""

    driver: Any

    @classmethod
    def start(cls, profile):
        from selenium import webdriver

        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for each in (*ARGUMENTS, f"--user-data-dir={profile}"):
            options.add_argument(each)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        return cls(webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER)))

    def open(self, address, scheme="light", media="screen"):
        feature = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": feature})
        self.driver.get(address)
        return self

    def close(self):
        self.driver.quit()

    def find(self, selector):
        return self.driver.find_elements("css selector", selector)

    def one(self, selector):
        """The first such element, once it is there."""
        wait(lambda: self.find(selector))
        return self.find(selector)[0]

    def fill(self, selector, text):
        field = self.one(selector)
        field.clear()
        field.send_keys(text)

    def text(self, selector="body"):
        return self.find(selector)[0].text

    def complaints(self):
        """What the console says since it was last asked."""
        return [each["message"] for each in self.driver.get_log("browser")]

    def asked(self):
        """The hosts, or kinds of address, of all requests since it was last asked."""
        found = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                address = urlsplit(message["params"]["request"]["url"])
                found.add(address.netloc if address.scheme.startswith("http") else address.scheme)
        # Its own pages are in the program.
        return found - {"chrome", "about"}

    def seen(self, selector):
        """Whether there is such an element, and every one of them takes room on the page."""
        elements = self.find(selector)
        return bool(elements) and all(each.size["height"] > 4 and each.is_displayed() for each in elements)

    def background(self):
        color = self.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        return sum(map(int, color[color.index("(") + 1 : -1].split(",")[:3])) / 765

    def overflow(self):
        """How far the page is wider than its window."""
        return self.driver.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )

    def pdf(self):
        return base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
