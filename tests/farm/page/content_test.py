"""The page shows what the farm's JSON and lfarm's commands say, and names that mean harm stay text.
If these fail, people look at a farm that is not theirs, or run what a stranger called a model."""

import json
import unittest

from browser import Browser
from farm import Farm, until

# Tries the ways in which a text becomes more than one: an element, an attribute's end, a script.
HOSTILE = "<img src=x onerror=\"window.harmed=1\">'\"></script><script>window.harmed=1</script>"
HOSTILE_NAME = "<img/src=x/onerror=window.harmed=1>"  # where names take no blanks
BUDGET = 16


class Content(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.farm = Farm(name=HOSTILE_NAME)
        cls.addClassCleanup(cls.farm.stop)
        cls.farm.start_worker(HOSTILE_NAME)
        cls.first = cls.farm.submit("mlp", "--budget", BUDGET, "--seed", 3)
        cls.second = cls.farm.submit("mlp_dynamic", "--budget", 4, "--name", HOSTILE)
        cls.browser = Browser(cls.farm)
        cls.addClassCleanup(cls.browser.close)

    def tearDown(self):
        self.assertEqual(self.browser.faults(), [])
        self.assertIsNone(self.browser.run("return window.harmed ?? null"))

    def jobs_by_name(self):
        return {row["name"]: row for row in self.farm.json("jobs?count=50")["rows"]}

    def test_the_farm(self):
        self.browser.open("/")
        self.browser.shows(f"Farm {HOSTILE_NAME}", "h1")
        self.browser.until("return document.querySelectorAll('tbody tr').length >= 3")
        tiles = self.browser.facts(".tiles")
        self.assertEqual(tiles["Workers"], "1")
        self.browser.until("""return [...document.querySelectorAll('.tiles > div')].some((tile) =>
            tile.innerText.replace(/\\s+/g, ' ') === 'Open jobs 0')""")
        worker, = self.browser.table("Connected workers")
        told, = self.farm.json("workers")["workers"]
        self.assertEqual(worker["Worker"], told["worker"])
        self.assertEqual(worker["Target"], told["target"])
        self.assertEqual(worker["Toolchain"], told["toolchain"])
        self.assertEqual(worker["Done"], str(told["tasks_done"]))
        self.assertIn(told["worker"], self.farm.lfarm("workers", "--farm", self.farm.listen))
        names = [row["Job"] for row in self.browser.table("The latest jobs")]
        self.assertEqual(names[-2:], [f"2 · {HOSTILE}", "1 · mlp"])

    def test_hostile_names_are_text(self):
        for view in ("/", "/jobs", f"/jobs/{self.jobs_by_name()[HOSTILE]['job']}"):
            self.browser.open(view)
            self.browser.shows("<img" if view == "/" else HOSTILE)
            self.assertEqual(self.browser.run("return document.images.length"), 0)
            scripts = self.browser.run("return [...document.scripts].map((one) => one.src)")
            self.assertEqual(scripts, [f"{self.browser.origin}/page/main.js"])
        self.assertIn(HOSTILE, self.browser.run("return document.title"))

    def test_the_browser_would_refuse_markup_from_texts(self):
        self.browser.open("/")
        self.browser.expected = ["TrustedHTML", "Trusted Type", "Content Security Policy"]
        refused = self.browser.run("""
            try { document.querySelector('h1').innerHTML = '<b>x</b>'; return ''; }
            catch (error) { return error.name; }""")
        self.assertEqual(refused, "TypeError")
        inline = self.browser.run("""
            const script = document.createElement('script');
            try { script.textContent = 'window.harmed = 1'; document.head.append(script); } catch {}
            return window.harmed ?? null;""")
        self.assertIsNone(inline)
        self.browser.faults()
        self.browser.expected = []

    def test_a_job_with_its_curve(self):
        job = self.jobs_by_name()["mlp"]["job"]
        told = self.farm.json(f"jobs/{job}")
        self.browser.open(f"/jobs/{job}")
        self.browser.shows(f"Job {job}: mlp", "h1")
        self.browser.until("return document.querySelector('path.curve') !== null")
        tiles = self.browser.facts(".tiles")
        self.assertEqual(tiles["State"], "done")
        self.assertEqual(tiles["Plan"], self.first["plan"][:12])
        self.assertEqual(tiles["Candidates"],
                         f"{told['job']['completed']} / {told['job']['budget']}")
        self.browser.run("document.querySelector('.chart details').open = true")
        self.browser.until("return document.querySelectorAll('.chart tbody tr').length > 0")
        curve = self.browser.table("Best time so far")
        points = told["course"]["points"]
        self.assertEqual([int(row["After"].split()[0]) for row in curve],
                         [point[0] for point in points])
        self.assertEqual(points[-1][0], told["job"]["completed"])
        self.assertEqual(points[-1][2], self.first["best_ns"])
        # One number with one meaning: of a whole program that was measured, so it never rises.
        shown = self.browser.run(
            "return import('/page/format.js').then((format) => format.duration(arguments[0]))",
            points[-1][2])
        self.assertEqual([tiles["Best"], curve[-1]["Best time"]], [shown, shown])
        self.assertEqual(told["job"]["baseline_ns"], self.first["baseline_ns"])
        # The last is what the comparison of the finalists measured.
        bests = [point[2] for point in points[:-1] if 0 < point[2] != points[-1][2]]
        self.assertEqual(bests, sorted(bests, reverse=True))
        by_time = self.browser.run("""
            const over = document.querySelector('input[value=time]'); over.click();
            return over.checked;""")
        self.assertTrue(by_time)
        self.browser.shows("time since the job began", ".chart svg")

    def test_candidates_are_those_of_the_replay(self):
        job = self.jobs_by_name()["mlp"]["job"]
        replay = [json.loads(line) for line in self.farm.lfarm(
            "replay", job, "--json", "--state", self.farm.folder / "state").splitlines()]
        self.assertTrue(replay[-1]["equal"], replay[-1])
        told = {f"{row['candidate']} · {row['kind']}": row for row in replay[:-1]}
        self.browser.open(f"/jobs/{job}")
        self.browser.until("return document.querySelectorAll('tbody .pill').length > 0")
        rows = self.browser.table("Candidates, the newest first")
        self.assertEqual({row["Candidate"] for row in rows}, set(told))
        listed = {f"{row['candidate']} · {row['kind']}": row
                  for row in self.farm.json(f"jobs/{job}/candidates?count=200")["rows"]}
        for row in rows:
            wanted, mine = told[row["Candidate"]], listed[row["Candidate"]]
            self.assertEqual(row["Outcome"].replace(" ", "_"), wanted["outcome"])
            self.assertEqual(row["Found by"], wanted["origin"])
            for field in ("predicted_ns", "measured_ns", "region", "outcome"):
                self.assertEqual(mine[field], wanted[field], row["Candidate"])
            duration = self.browser.run(
                "return import('/page/format.js').then((format) => format.duration(arguments[0]))",
                wanted["measured_ns"])
            self.assertEqual(row["Measured"], duration)
        counts = self.farm.json(f"jobs/{job}")["course"]["outcomes"]
        self.assertEqual(counts["ok"], sum(row["outcome"] == "ok" for row in replay[:-1]))
        chart = self.browser.run("return document.querySelectorAll('circle.point').length")
        both = sum(row["predicted_ns"] > 0 and row["measured_ns"] > 0 for row in told.values())
        self.assertEqual(chart, both)

    def test_candidates_by_outcome(self):
        job = self.jobs_by_name()["mlp"]["job"]
        self.browser.open(f"/jobs/{job}")
        self.browser.until("return document.querySelectorAll('tbody .pill').length > 0")
        self.browser.run("""
            const select = document.querySelector('#outcome');
            select.value = 'infra'; select.dispatchEvent(new Event('change'));""")
        self.browser.shows("No such candidate.")

    def test_a_plan_with_its_kernels_and_their_source(self):
        plan = self.first["plan"]
        printed = self.farm.lfarm("plan", "show", plan, "--farm", self.farm.listen)
        told = self.farm.json(f"plans/{plan}")
        self.assertTrue(printed.startswith(f"plan {told['plan']}\n  key       {told['key']}\n"),
                        printed[:200])
        self.browser.open("/plans")
        self.browser.shows(plan[:12])
        models = {row["Plan"]: row["Model"]
                  for row in self.browser.table("Plans of the cache, the newest first")}
        self.assertEqual(models[plan[:12]], "mlp")
        self.assertEqual(models[self.second["plan"][:12]], HOSTILE)
        self.browser.go(f"/plans/{plan}")
        self.browser.shows(f"Plan {plan[:12]}: mlp", "h1")
        self.browser.until("return document.querySelectorAll('tbody tr').length > 0")
        kernels = self.browser.table("Kernels, in the order of the plan")
        self.assertEqual(len(kernels), printed.count("\nkernel "))
        self.assertEqual(len(kernels), len(told["kernels"]))
        self.assertTrue(any(row["Weights of"].startswith(("a", "b", "scale")) and
                            ".py:" in row["Weights of"] for row in kernels), kernels)
        generated = [kernel for kernel in told["kernels"] if not kernel["library"]]
        self.assertTrue(generated, "the fixture's plan has a kernel with code")
        for kernel in generated:
            self.assertIn(kernel["entry"], printed)
            self.browser.run("document.querySelector(`[aria-controls=source-${arguments[0]}]`)"
                             ".click()", kernel["kernel"])
            self.browser.shows(kernel["entry"], f"#source-{kernel['kernel']} pre")
            source = self.farm.json(f"plans/{plan}/kernels/{kernel['kernel']}")["text"]
            self.assertEqual(self.browser.text(f"#source-{kernel['kernel']} pre").split(),
                             source.split())
        self.browser.run("document.querySelector('.preamble').open = true")
        self.browser.shows("#include", ".preamble pre")

    def test_the_cache(self):
        self.browser.open("/cache")
        self.browser.shows("This farm's store")
        told = self.farm.json("cache")
        tiles = self.browser.facts(".tiles")
        self.assertEqual(tiles["Plans"], str(told["plans"]["count"]))
        tenant, = self.browser.table("Plans asked for since the coordinator started, by tenant")
        self.assertEqual(tenant["Tenant"], "local")
        asked = int(tenant["Searched from nothing"]) + int(tenant["Searched, partly known"])
        self.assertEqual(asked, 2)
        shown = self.farm.lfarm("cache", "stats", "--farm", self.farm.listen)
        self.assertIn("asked by local: miss", shown)
        self.assertEqual(told["hits"], told["tenants"]["local"]["hits"])
        self.assertEqual(told["saved_ms"], told["tenants"]["local"]["saved_ms"])

    def test_views_say_what_their_words_mean(self):
        job = self.jobs_by_name()["mlp"]["job"]
        for view, word in (("/", "Worker"), ("/jobs", "Gain"), (f"/jobs/{job}", "Plain plan"),
                           ("/plans", "Target"), (f"/plans/{self.first['plan']}", "Schedule"),
                           ("/cache", "Tier")):
            self.browser.open(view)
            self.browser.run("document.querySelector('.words').open = true")
            words = self.browser.facts(".words dl")
            self.assertIn(word, words, view)
            self.assertTrue(all(len(meaning) > 20 for meaning in words.values()), words)

    def test_addresses_that_name_nothing(self):
        for view, says in (("/nowhere", "This address names no view"),
                           ("/jobs/4711", "No such job is open"),
                           (f"/plans/{'0' * 64}", "The cache has no such plan")):
            self.browser.expected = ["404"]
            self.browser.open(view)
            self.browser.shows(says)
            self.assertNotIn("/api/", self.browser.text())
            self.assertEqual(self.browser.faults(), [])
        self.browser.expected = []

    def test_a_job_under_way(self):
        submit = self.farm.begin_submit("kv_step", "--budget", 100_000, "--name", "long one")
        try:
            job = until(lambda: next((row["job"] for row in self.farm.json("jobs")["jobs"]
                                      if row["name"] == "long one"), None), "the job")
            self.browser.open("/")
            self.browser.go(f"/jobs/{job}")
            self.browser.shows("long one", "h1")
            # It grows by itself.
            self.browser.until("""
                const tile = document.querySelectorAll('.tiles > div')[4];
                return tile && parseInt(tile.querySelector('dd').textContent) >= 2""")
            self.browser.until("return document.querySelector('path.curve') !== null")
        finally:
            self.farm.lfarm("cancel", job, "--farm", self.farm.listen)
            submit.wait()
        self.browser.shows("cancelled", ".tiles")
        self.browser.shows("was cancelled")


if __name__ == "__main__":
    unittest.main()
