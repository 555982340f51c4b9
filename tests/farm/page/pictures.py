"""Writes the pictures of docs/images: the page, 1440 wide, in both colour schemes.

LFARM_BIN=build/bin pictures.py OUT. Needs what the page's tests need: Chromium, chromedriver and
python3-selenium."""

import base64
import pathlib
import sys

from browser import Browser
from farm import Farm

SIZE = (1440, 900)
BUDGET = 8


def shoot(browser, file):
    """The window as it stands."""
    shot = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    file.write_bytes(base64.b64decode(shot["data"]))


def main(out):
    out.mkdir(parents=True, exist_ok=True)
    farm = Farm(name="example")
    browser = None
    try:
        farm.start_worker("worker-1")
        plan = farm.submit("mlp", "--budget", BUDGET, "--seed", 1)["plan"]
        farm.submit("llama", "--budget", BUDGET, "--seed", 1)
        browser = Browser(farm, size=SIZE)
        for scheme in ("light", "dark"):
            browser.colour_scheme(scheme)
            browser.open("/")
            browser.until("return document.querySelectorAll('tbody tr').length >= 3")
            shoot(browser, out / f"farm-{scheme}.png")
            browser.open("/jobs/2")
            browser.until("return document.querySelector('path.curve') !== null")
            shoot(browser, out / f"job-{scheme}.png")
            browser.open(f"/plans/{plan}")
            browser.until("return document.querySelector('td button') !== null")
            shoot(browser, out / f"plan-{scheme}.png")
    finally:
        if browser is not None:
            browser.close()
        farm.stop()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    main(pathlib.Path(sys.argv[1]))
