"""Writes the pictures of docs/images: the page and a report, 1440 wide, in both colour schemes.

LFARM_BIN=build/bin pictures.py OUT [report]. `report`: that picture alone, and one of it 390 wide, to
look at, in each scheme. Needs what the page's tests need: Chromium, chromedriver and
python3-selenium."""

import base64
import contextlib
import pathlib
import sys

from browser import Browser
from farm import MODELS, Farm

SIZE = (1440, 900)
PHONE = (390, 844)
BUDGET = 8
CASES = ("mlp", "kv_step", "llama")


def shoot(browser, file):
    """The window as it stands."""
    shot = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    file.write_bytes(base64.b64decode(shot["data"]))


def write_report(farm):
    """What cases and the course of a search have recorded, as a page."""
    records, page = farm.folder / "measured.db", farm.folder / "report.html"
    common = ("--farm", farm.listen, "--device", "cpu", "--budget", BUDGET, "--record", records)
    farm.lfarm("submit", MODELS / "kv_step" / "model.pt2", "--seed", 1, *common)
    for backend in ((), ("--reference",)):
        farm.lfarm("check", *(MODELS / name for name in CASES), *backend, *common)
    with contextlib.chdir(farm.folder):  # the page names the file as it was given
        farm.lfarm("report", "--db", records.name, "-o", page, "--gate",
                   "error_rel{backend=lfarm} <= 1e-3", "--gate", "latency_ms{model=mlp} <= 1000")
    return page


def shoot_report(browser, page, out, phone):
    for size, ending in (((SIZE, ""), (PHONE, "-phone")) if phone else ((SIZE, ""),)):
        browser.resize(size)
        for scheme in ("light", "dark"):
            browser.colour_scheme(scheme)
            browser.driver.get(page.as_uri())
            wide = browser.run("return document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"the report is {wide} pixels wider than the window"
            shoot(browser, out / f"report{ending}-{scheme}.png")


def main(out, only_report):
    out.mkdir(parents=True, exist_ok=True)
    farm = Farm(name="example")
    browser = None
    try:
        farm.start_worker("worker-1")
        if only_report:
            page = write_report(farm)
            browser = Browser(farm, size=SIZE)
            return shoot_report(browser, page, out, phone=True)
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
        shoot_report(browser, write_report(farm), out, phone=False)
    finally:
        if browser is not None:
            browser.close()
        farm.stop()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["report"]):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    main(pathlib.Path(sys.argv[1]), len(sys.argv) == 3)
