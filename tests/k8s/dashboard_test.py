"""The dashboard for Grafana: if this fails, panels are empty, lie over one another, or show numbers
without saying what they are. Whether its metrics exist, commands_test asks a real farm."""

import json
import unittest

import manifests
import policies_scaling

WIDTH = 24
# Of Grafana's own list of units, those that are used here.
UNITS = {"short", "s", "bytes", "ops", "reqps", "percentunit", "bool_on_off"}


def dashboard():
    settings = manifests.load("everything").named("ConfigMap", "lfarm-dashboard")
    return json.loads(settings["data"]["lfarm.json"])


def expressions():
    return [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", [])]


class Dashboard(unittest.TestCase):
    def setUp(self):
        self.all = dashboard()["panels"]
        self.panels = [panel for panel in self.all if panel["type"] != "row"]

    def test_grafana_finds_it(self):
        settings = manifests.load("everything").named("ConfigMap", "lfarm-dashboard")
        self.assertEqual(settings["metadata"]["labels"]["grafana_dashboard"], "1")
        self.assertEqual(settings["metadata"]["namespace"], "lfarm")
        self.assertLess(len(settings["data"]["lfarm.json"]), 1 << 20, "too large for a ConfigMap")
        whole = dashboard()
        self.assertTrue(whole["uid"] and whole["title"] and whole["schemaVersion"])

    def test_every_panel_says_what_it_shows(self):
        self.assertGreater(len(self.panels), 20)
        titles = [panel["title"] for panel in self.all]
        self.assertEqual(len(titles), len(set(titles)), "a title is there twice")
        self.assertEqual(len({panel["id"] for panel in self.all}), len(self.all))
        for panel in self.panels:
            with self.subTest(panel["title"]):
                self.assertTrue(panel["title"])
                self.assertIn(panel["fieldConfig"]["defaults"]["unit"], UNITS)
                self.assertTrue(panel["targets"])
                references = [target["refId"] for target in panel["targets"]]
                self.assertEqual(len(references), len(set(references)))
                for target in panel["targets"]:
                    self.assertTrue(target["legendFormat"])
                    self.assertEqual(target["datasource"]["uid"], "${datasource}")

    def test_panels_lie_side_by_side(self):
        taken = {}
        for panel in self.all:
            at = panel["gridPos"]
            self.assertTrue(at["w"] > 0 and at["h"] > 0 and at["x"] >= 0, panel["title"])
            self.assertLessEqual(at["x"] + at["w"], WIDTH, panel["title"])
            for x in range(at["x"], at["x"] + at["w"]):
                for y in range(at["y"], at["y"] + at["h"]):
                    other = taken.setdefault((x, y), panel["title"])
                    self.assertEqual(other, panel["title"])

    def test_expressions_are_whole(self):
        for expression in expressions():
            with self.subTest(expression):
                for opens, closes in ("()", "[]", "{}"):
                    self.assertEqual(expression.count(opens), expression.count(closes))
                self.assertEqual(expression.count('"') % 2, 0)
                self.assertTrue(policies_scaling.series(expression))
                # A counter by itself only grows; a histogram has no value of its own.
                for name in policies_scaling.series(expression):
                    if name.endswith(("_total", "_bucket")):
                        self.assertRegex(expression, rf"(rate|increase)\({name}[{{\[]")


if __name__ == "__main__":
    manifests.main()
