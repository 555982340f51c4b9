"""The page for people who use a keyboard, a screen reader or a phone, in both colour schemes. If
these fail, some of them cannot see their farm."""

import unittest

from selenium.webdriver.common.keys import Keys

from browser import DESKTOP, PHONE, Browser
from farm import Farm

HOSTILE = "<b>bold</b> a-name-without-any-blank-that-is-longer-than-a-telephone-is-wide-" + "x" * 80

# Every text's colour against what is behind it, as computed; answers those below WCAG's AA.
CONTRAST = """
const parse = (text) => {
  const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
  return {r, g, b, a};
};
const over = (top, under) => ({
  r: top.r * top.a + under.r * (1 - top.a), g: top.g * top.a + under.g * (1 - top.a),
  b: top.b * top.a + under.b * (1 - top.a), a: 1,
});
const luminance = ({r, g, b}) => {
  const [x, y, z] = [r, g, b].map((v) => v / 255).map((v) =>
    v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const behind = (element) => {
  const layers = [];
  for (let at = element; at; at = at.parentElement) {
    layers.push(parse(getComputedStyle(at).backgroundColor));
  }
  return layers.reverse().reduce((under, top) => over(top, under), {r: 255, g: 255, b: 255, a: 1});
};
const poor = [];
let checked = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || !element.checkVisibility()) continue;
  if (element.closest('title')) continue;
  const style = getComputedStyle(element);
  const ground = behind(element);
  const ink = over(parse(element instanceof SVGElement ? style.fill : style.color), ground);
  const [light, dark] = [luminance(ink), luminance(ground)].sort((a, b) => b - a);
  const ratio = (light + 0.05) / (dark + 0.05);
  const size = parseFloat(style.fontSize);
  const isLarge = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
  checked += 1;
  if (ratio < (isLarge ? 3 : 4.5)) poor.push(`${element.tagName} "${
    walker.currentNode.textContent.trim().slice(0, 30)}" ${ratio.toFixed(2)}`);
}
return {poor, checked};
"""

# What reaches beyond the window, but for the content of boxes that scroll by themselves.
OVERFLOW = """
const wide = document.documentElement.clientWidth;
const found = [];
for (const element of document.body.querySelectorAll('*')) {
  if (!element.checkVisibility() || element.closest('.skip, caption, thead')) continue;
  const scrolls = element.parentElement?.closest('.source, .scroll');
  if (scrolls) continue;
  const box = element.getBoundingClientRect();
  if (box.right > wide + 0.5 || box.left < -0.5) {
    found.push(`${element.tagName}.${element.getAttribute('class')} ${box.left} to ${box.right}`);
  }
}
return {found, page: document.documentElement.scrollWidth, wide};
"""


class Looks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.farm = Farm()
        cls.addClassCleanup(cls.farm.stop)
        cls.farm.start_worker("worker-with-a-name-" + "y" * 40)
        cls.plan = cls.farm.submit("mlp", "--budget", 12)["plan"]
        cls.farm.submit("mlp_dynamic", "--budget", 4, "--name", HOSTILE)
        cls.browser = Browser(cls.farm)
        cls.addClassCleanup(cls.browser.close)
        cls.views = {"/": "Farm page-test", "/jobs": "Jobs", "/jobs/1": "Job 1: mlp",
                     "/jobs/2": HOSTILE, "/plans": "Plans", f"/plans/{cls.plan}": "Plan ",
                     "/cache": "Cache and reuse", "/nowhere": "Nothing here"}

    def setUp(self):
        self.browser.resize(DESKTOP)
        self.browser.colour_scheme("light")

    def tearDown(self):
        self.assertEqual(self.browser.faults(), [])

    def enter(self, view):
        """All of the view, what can be opened too."""
        self.browser.open(view)
        self.browser.shows(self.views[view], "h1")
        self.browser.shows("Live", "#live")
        self.browser.run("for (const one of document.querySelectorAll('.words')) one.open = true")
        if view.startswith("/jobs/"):
            self.browser.until("return document.querySelector('.chart svg > *') !== null")
            self.browser.run("""
                for (const one of document.querySelectorAll('.chart details')) one.open = true;""")
            self.browser.until("return document.querySelectorAll('.chart tbody tr').length > 0")
        if view.startswith("/plans/"):
            self.browser.until("return document.querySelector('td button') !== null")
            self.browser.run("document.querySelector('td button').click()")
            self.browser.until("return document.querySelector('tr.detail pre') !== null")

    def test_nothing_overflows_a_phone(self):
        self.browser.resize(PHONE)
        for view in self.views:
            with self.subTest(view):
                self.enter(view)
                measured = self.browser.run(OVERFLOW)
                self.assertEqual(measured["wide"], PHONE[0])
                self.assertEqual(measured["found"], [])
                self.assertLessEqual(measured["page"], PHONE[0])

    def test_texts_stand_out_in_both_schemes(self):
        for scheme in ("light", "dark"):
            self.browser.colour_scheme(scheme)
            for view in self.views:
                with self.subTest(view, scheme=scheme):
                    self.enter(view)
                    contrast = self.browser.run(CONTRAST)
                    self.assertGreater(contrast["checked"], 8)
                    self.assertEqual(contrast["poor"], [])

    def test_headings_landmarks_and_names(self):
        for view in self.views:
            with self.subTest(view):
                self.enter(view)
                levels = self.browser.run("""
                    return [...document.querySelectorAll('h1, h2, h3, h4')].filter(
                        (one) => one.checkVisibility()).map((one) => Number(one.tagName[1]))""")
                self.assertEqual(levels.count(1), 1)
                self.assertEqual(levels[0], 1)
                for before, after in zip(levels, levels[1:]):
                    self.assertLessEqual(after, before + 1)
                self.check_tree(view)

    def check_tree(self, view):
        """What a screen reader is given."""
        self.browser.driver.execute_cdp_cmd("Accessibility.enable", {})
        nodes = self.browser.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        nodes = [node for node in nodes if not node.get("ignored")]
        value = lambda node, key: node.get(key, {}).get("value", "")
        roles = [value(node, "role") for node in nodes]
        for role in ("banner", "navigation", "main"):
            self.assertEqual(roles.count(role), 1, f"{view}: {role}")
        for node in nodes:
            if value(node, "role") in ("button", "link", "radio", "combobox", "textbox", "table",
                                       "region", "img", "image", "navigation", "heading",
                                       "columnheader", "rowheader"):
                self.assertTrue(value(node, "name").strip(), f"{view}: {node}")
        if view != "/nowhere":
            self.assertIn("table", roles, view)
            self.assertIn("columnheader", roles, view)
        if view.startswith("/jobs/"):
            images = [value(node, "name") for node in nodes if value(node, "role") in
                      ("img", "image")]
            self.assertTrue(any("Best time so far From" in name for name in images), images)
        self.assertEqual(self.browser.run("return document.documentElement.lang"), "en")
        twice = self.browser.run("""
            const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
            return ids.filter((id, at) => ids.indexOf(id) !== at)""")
        self.assertEqual(twice, [])

    def test_tables_stay_tables_on_a_phone(self):
        self.browser.resize(PHONE)
        for view in self.views:
            with self.subTest(view):
                self.enter(view)
                self.check_tree(view)

    def press(self, *keys):
        self.browser.driver.switch_to.active_element.send_keys(*keys)

    def tab_to(self, condition, limit=60):
        """Tabs until the focused element `one` fulfils the condition; it must show its focus."""
        for _ in range(limit):
            self.press(Keys.TAB)
            if self.browser.run("return document.activeElement === document.body"):
                continue  # once around
            self.assertTrue(self.browser.run("""
                const style = getComputedStyle(document.activeElement);
                return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2"""),
                            self.browser.run("return document.activeElement.outerHTML.slice(0, 200)"))
            if self.browser.run(f"const one = document.activeElement; return {condition}"):
                return
        self.fail(f"no Tab leads to {condition}")

    def test_all_of_it_by_keyboard(self):
        browser = self.browser
        browser.open("/")
        browser.shows("Live", "#live")
        browser.until("return document.querySelectorAll('.row-link').length > 1")
        self.press(Keys.TAB)
        self.assertEqual(browser.run("return document.activeElement.id"), "skip")
        self.press(Keys.ENTER)
        self.assertEqual(browser.run("return document.activeElement.id"), "main")
        self.tab_to("one.classList.contains('row-link')")  # past the navigation
        # A poll does not take the focus away.
        asked = "return performance.getEntriesByType('resource').filter(" \
                "(one) => one.name.includes('overview')).length"
        before = browser.run(asked)
        browser.until(f"{asked} > {before + 1}")
        self.assertTrue(browser.run(
            "return document.activeElement.classList.contains('row-link')"))

        browser.open("/")
        browser.shows("Live", "#live")
        self.tab_to("one.textContent === 'Jobs'")
        self.press(Keys.ENTER)
        browser.shows("Jobs", "h1")
        self.assertEqual(browser.run("return document.activeElement.tagName"), "H1")
        browser.until("return document.querySelectorAll('.row-link').length > 1")
        self.tab_to("one.textContent.startsWith('1 ')")
        self.press(Keys.ENTER)
        browser.shows("Job 1: mlp", "h1")
        browser.until("return document.querySelector('path.curve') !== null")
        self.tab_to("one.type === 'radio'")
        self.press(Keys.ARROW_DOWN)
        browser.shows("time since the job began", ".chart svg")
        self.tab_to("one.tagName === 'SUMMARY'")
        self.press(Keys.ENTER)
        browser.until("return document.querySelector('.chart details').open")
        self.tab_to("one.id === 'outcome'")
        self.press("wr")
        browser.shows("No such candidate.")

        browser.open(f"/plans/{self.plan}")
        browser.until("return document.querySelector('td button') !== null")
        self.tab_to("one.matches('td button')")
        self.press(Keys.SPACE)
        browser.until("""return document.activeElement.getAttribute('aria-expanded') === 'true'
            && document.querySelector('tr.detail pre') !== null""")
        self.tab_to("one.classList.contains('source')")


if __name__ == "__main__":
    unittest.main()
