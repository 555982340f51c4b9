"""A coordinator that is killed and started again: the page says so, keeps what it showed, and goes
on by itself. If these fail, people trust a page that stands still, or reload it for ever."""

import unittest

from browser import Browser
from farm import Farm

REFUSED = ["ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE"]


class Restart(unittest.TestCase):
    def setUp(self):
        self.farm = Farm()
        self.addCleanup(self.farm.stop)
        self.browser = Browser(self.farm)
        self.addCleanup(self.browser.close)

    def test_the_page_says_so_and_recovers(self):
        self.farm.start_worker("one")
        plan = self.farm.submit("mlp", "--budget", 6)["plan"]
        before = self.farm.json("jobs/1")
        self.browser.open("/jobs/1")
        self.browser.shows("Live", "#live")
        self.browser.shows(plan[:12], ".tiles")

        first_life = self.farm.json("status")["coordinator"]
        self.browser.expected = REFUSED
        self.farm.kill_coordinator()
        self.browser.run("document.getElementById('retry').click()")
        self.browser.shows("The farm does not answer; what is shown is of", "#notice")
        self.browser.shows("The farm does not answer", "#live")
        self.assertIn(plan[:12], self.browser.text(".tiles"))

        self.farm.start_coordinator()
        # By itself: nobody presses the button.
        self.browser.until("return document.getElementById('notice').hidden")
        self.browser.shows("Live", "#live")
        # What is known of ended jobs outlives the process.
        after = self.farm.json("jobs/1")
        self.assertEqual(after, before)
        rows = self.farm.json("jobs/1/candidates")["rows"]
        self.assertEqual(len(rows), before["course"]["candidates_total"])
        self.assertEqual([row["job"] for row in self.farm.json("jobs?count=9")["rows"]], [1])
        self.browser.go("/")
        this_life = self.farm.json("status")["coordinator"]
        self.assertNotEqual(this_life, first_life)
        self.browser.shows(this_life)
        self.assertEqual(self.browser.faults(), [])

    def test_an_empty_farm_says_what_to_do(self):
        self.browser.open("/")
        self.browser.shows("lfarm up --workers 2")
        self.browser.shows("lfarm submit model.pt2")
        self.browser.go("/plans")
        self.browser.shows("The cache holds no plan yet")
        self.browser.go("/cache")
        self.browser.shows("Nobody has asked for a plan yet")
        self.assertEqual(self.browser.faults(), [])

    def test_a_hidden_page_asks_nothing(self):
        self.browser.open("/")
        self.browser.shows("Live", "#live")
        hide = """
            Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});
            document.dispatchEvent(new Event('visibilitychange'));
            return document.getElementById('live-text').textContent;"""
        self.assertEqual(self.browser.run(hide, True), "Paused")
        # A page that polled on would say "does not answer" now.
        self.farm.kill_coordinator()
        timers = self.browser.run("""
            return new Promise((resolve) => setTimeout(() =>
                resolve(document.getElementById('live-text').textContent), 3000));""")
        self.assertEqual(timers, "Paused")
        self.browser.expected = REFUSED
        self.browser.run(hide, False)
        self.browser.shows("The farm does not answer", "#live")
        self.farm.start_coordinator()
        self.browser.until("return document.getElementById('notice').hidden")


if __name__ == "__main__":
    unittest.main()
