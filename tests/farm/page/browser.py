"""Headless Chromium, driven over WebDriver, with what it logged and asked for."""

import json
import shutil
import sys
import tempfile

SKIPPED = 77

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    print("skipped: python3-selenium is not installed")
    sys.exit(SKIPPED)

from farm import PATIENCE_S

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
                None)
DRIVER = shutil.which("chromedriver")
if CHROMIUM is None or DRIVER is None:
    print("skipped: no Chromium, or no chromedriver, is installed")
    sys.exit(SKIPPED)

DESKTOP = (1280, 900)
PHONE = (360, 740)


class Browser:
    """One window on one farm's page. What goes wrong in it is checked by blameless()."""

    def __init__(self, farm, size=DESKTOP, scheme="light"):
        self.origin = f"http://{farm.http}"
        self.profile = tempfile.mkdtemp(prefix="lfarm-chromium-")
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic",
                     "--no-first-run", "--disable-background-networking", "--disable-sync",
                     "--disable-component-update", "--disable-dev-shm-usage",
                     f"--user-data-dir={self.profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service(DRIVER), options=options)
        self.driver.set_script_timeout(PATIENCE_S)
        self.driver.set_page_load_timeout(PATIENCE_S)
        self.resize(size)
        self.colour_scheme(scheme)
        self.expected = []  # parts of console messages that are no fault

    def close(self):
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)

    def resize(self, size):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": size[0], "height": size[1], "deviceScaleFactor": 1,
            "mobile": size[0] < 500})

    def colour_scheme(self, scheme):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def open(self, view="/"):
        """Anew: an address that differs in its view alone would not load the page again."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.origin}/#{view}")
        self.until("return document.querySelector('h1') !== null")

    def go(self, view):
        """Within the page that is open."""
        self.run("location.hash = arguments[0]", f"#{view}")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, script, *arguments):
        """The script's first true value."""
        return WebDriverWait(self.driver, PATIENCE_S, poll_frequency=0.05).until(
            lambda driver: driver.execute_script(script, *arguments), f"in vain: {script}")

    def text(self, selector="main"):
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def shows(self, text, selector="main"):
        self.until("""
            const one = document.querySelector(arguments[1]);  // SVG has no innerText
            return (one?.innerText ?? one?.textContent ?? '').includes(arguments[0])""",
                   text, selector)

    def facts(self, selector):
        """Of a list of names and values."""
        return self.run("""
            return Object.fromEntries([...document.querySelectorAll(arguments[0] + ' > div')].map(
                (entry) => [entry.querySelector('dt').textContent,
                            entry.querySelector('dd').textContent]))""", selector)

    def table(self, caption):
        """Rows by their columns' titles; None while there is no such table."""
        return self.run("""
            const table = [...document.querySelectorAll('table')].find(
                (one) => one.caption?.textContent === arguments[0]);
            if (!table) return null;
            const titles = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
            return [...table.tBodies[0].rows].filter((row) => !row.classList.contains('detail'))
                .map((row) => Object.fromEntries(
                    [...row.cells].map((cell, k) => [titles[k], cell.textContent])));""", caption)

    def requests(self):
        """Addresses that were asked for since the last call."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found

    def faults(self):
        """What the page or the browser complained of, and requests to anyone but the farm."""
        complaints = [entry["message"] for entry in self.driver.get_log("browser")
                      if entry["level"] in ("SEVERE", "WARNING")
                      and not any(part in entry["message"] for part in self.expected)]
        elsewhere = [url for url in self.requests() if not url.startswith(self.origin + "/")
                     and not url.startswith(("data:", "chrome:", "about:"))]
        return complaints + [f"asked for {url}" for url in elsewhere]
