"""What the manifests start, started: the binaries with exactly their arguments, variables and files,
asked what the cluster would ask. If this fails, pods do not come up."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.parse

import dashboard_test
import fake_api
import manifests
import pods
import policies_scaling

MODEL = manifests.ROOT / "tests" / "fixtures" / "models" / "mlp" / "model.pt2"


def eventually(what, condition):
    deadline = time.monotonic() + pods.PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"never: {what}")
        time.sleep(0.02)


def demand_path():
    objects = manifests.load("everything")
    url = objects.named("ScaledObject", "lfarm-worker-cpu")["spec"]["triggers"][0]["metadata"]["url"]
    parts = urllib.parse.urlsplit(url)
    return f"{parts.path}?{parts.query}"


class Case(unittest.TestCase):
    """A coordinator and a worker of a combination, which its tests start."""

    combination = "hpa"
    api = None

    def setUp(self):
        for name in ("lfarm", "lfarm-coordinator", "lfarm-worker"):
            manifests.binary(name)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lfarm-k8s-"))
        self.addCleanup(pods.remove, self.folder)
        self.objects = manifests.load(self.combination)
        self.outside = pods.farm_keys(self.folder / "keys")
        self.start_cluster()
        self.coordinator = self.pod(self.objects.coordinators()[0])
        self.worker = self.pod(self.objects.named("Deployment", "lfarm-worker-cpu"))

    def start_cluster(self):
        """Nothing, for pods that ask no cluster."""

    def pod(self, workload, number=0):
        name = f"{workload['metadata']['name']}-{number}"
        return pods.Pod(self.objects, workload, self.folder / name, self.outside, self.api)

    def start_coordinator(self, changes=(), pod=None):
        process = (pod or self.coordinator).start(changes)
        self.addCleanup(process.stop)
        return process, self.serving(process)

    def serving(self, process):
        port = process.until(r"listening on tcp://\S+:(\d+)")[1]
        self.farm = f"127.0.0.1:{port}"
        return pods.Site(process)

    def start_worker(self):
        process = self.worker.start([("lfarm-coordinator:*", self.farm)])
        self.addCleanup(process.stop)
        return process, pods.Site(process)

    def submit(self, *arguments):
        farm_key = self.outside["ConfigMap", "lfarm-public"]["farm-key"]
        process = pods.Process(
            [str(manifests.binary("lfarm")), "submit", str(MODEL), "--farm", f"tcp://{self.farm}",
             "--farm-key", farm_key, "--keys", str(self.folder / "keys" / "client_keys"),
             "--state", str(self.folder / "client"), "--device", "cpu", *arguments],
            {**os.environ, "TMPDIR": str(self.folder)})
        self.addCleanup(process.stop)
        return process

    def assert_probes(self, pod, site):
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            eventually(f"{probe} of {manifests.title(pod.workload)} succeeds",
                       lambda probe=probe: site.probe(pod.container, probe) == 200)


class Farm(Case):
    def test_pods_come_up_work_and_end(self):
        coordinator, coordinator_site = self.start_coordinator()
        self.assert_probes(self.coordinator, coordinator_site)
        worker, worker_site = self.start_worker()
        self.assert_probes(self.worker, worker_site)

        status, body = coordinator_site.get(demand_path())
        self.assertEqual(status, 200)
        demand = json.loads(body)
        self.assertEqual((demand["wanted_workers"], demand["workers"]), (0, 1))

        submitted = self.submit("--budget", "2")
        self.assertEqual(submitted.wait(), 0, submitted.said())
        # Once more, which is a hit.
        again = self.submit("--budget", "2")
        self.assertEqual(again.wait(), 0, again.said())
        told = {name for site in (coordinator_site, worker_site)
                for name in re.findall(r"^# TYPE (\S+)", site.get("/metrics")[1], re.M)}
        self.assert_metrics_are_known(told)

        self.worker.pre_stop(worker)
        self.assertEqual(worker.wait(), 0, worker.said())
        self.assertIn("draining", worker.said())
        coordinator.terminate()
        self.assertEqual(coordinator.wait(), 0, coordinator.said())

    def assert_metrics_are_known(self, told):
        """What alerts, scaling and the dashboard ask for is there; the manual explains all that is
        there, and nothing else."""
        asked = {name for rule in policies_scaling.alert_rules(manifests.load("everything"))
                 for name in policies_scaling.series(rule["expr"])}
        for rule in policies_scaling.adapter_rules(manifests.load("hpa")):
            asked |= policies_scaling.series(rule["seriesQuery"])
            asked |= policies_scaling.series(rule["metricsQuery"])
        self.assertGreater(len(asked), 8)
        shown = {name for expression in dashboard_test.expressions()
                 for name in policies_scaling.series(expression)}
        # Of histograms, what a scrape makes of them.
        asked = {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked | shown}
        self.assertEqual(asked - told, set(), "asked for, and told by nobody")
        manual = (manifests.ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
        explained = set(re.findall(r"^\| `((?:lfarm|process)_\w+)", manual, re.M))
        self.assertEqual(told - explained, set(), "metrics without a word in docs/operations.md")
        self.assertEqual(explained - told, set(), "docs/operations.md has metrics that are not there")
        self.assertEqual(told - asked, set(), "metrics that neither alerts nor panels look at")

    def test_work_and_absence_fail_no_liveness_probe(self):
        """A queue that is full, and a farm that is away, are no reasons to start anew."""
        coordinator, site = self.start_coordinator([("--searches=4", "--searches=1")])
        self.assert_probes(self.coordinator, site)
        # Nobody works on it: it stays in the queue.
        self.submit("--target", "cpu-x86_64-avx2")
        path = demand_path()
        eventually("demand", lambda: json.loads(site.get(path)[1])["wanted_workers"] > 0)
        self.assertEqual(json.loads(site.get(path)[1])["workers"], 0)
        for probe in ("readinessProbe", "livenessProbe"):
            self.assertEqual(site.probe(self.coordinator.container, probe), 200)

        worker, worker_site = self.start_worker()
        self.assert_probes(self.worker, worker_site)
        coordinator.stop()
        eventually("the worker is not ready",
                   lambda: worker_site.probe(self.worker.container, "readinessProbe") == 503)
        self.assertEqual(worker_site.probe(self.worker.container, "livenessProbe"), 200)
        self.assertEqual(worker_site.probe(self.worker.container, "startupProbe"), 200)

    def test_a_full_queue_turns_submits_away_and_is_alive(self):
        _, site = self.start_coordinator([("--searches=4", "--jobs=1")])
        self.submit("--target", "cpu-x86_64-avx2")
        path = demand_path()
        eventually("demand", lambda: json.loads(site.get(path)[1])["wanted_workers"] > 0)
        second = self.submit("--target", "cpu-x86_64-avx2", "--numerics", "relaxed")
        second.until("submit again in")
        for probe in ("readinessProbe", "livenessProbe"):
            self.assertEqual(site.probe(self.coordinator.container, probe), 200)


class ClusterCase(Case):
    """Pods that have a token, against as much of an API as they use."""

    def start_cluster(self):
        test = [*pods.OWN_FILES, "mount", "-t", "tmpfs", "none", "/run"]
        if subprocess.run(test, capture_output=True, check=False).returncode != 0:
            raise unittest.SkipTest("nobody may mount here")
        self.api = fake_api.FakeApi(self.folder / "api", "lfarm")
        self.addCleanup(self.api.stop)


class IdleWorkers(ClusterCase):
    combination = "everything"

    def deletion_costs(self):
        with self.api.lock:
            return [one["controller.kubernetes.io/pod-deletion-cost"]
                    for one in self.api.annotations.get(self.worker.name, [])]

    def test_idle_workers_may_go_first(self):
        _, site = self.start_coordinator()
        self.assert_probes(self.coordinator, site)
        worker, worker_site = self.start_worker()
        self.assert_probes(self.worker, worker_site)
        eventually("the idle worker says so", lambda: self.deletion_costs()[-1:] == ["-100"])
        self.assertEqual(self.api.refused, 0)
        self.worker.pre_stop(worker)
        self.assertEqual(worker.wait(), 0, worker.said())


class SeveralCoordinators(ClusterCase):
    combination = "ha"

    def start_store(self):
        if shutil.which("redis-server") is None:
            raise unittest.SkipTest("no redis-server here")
        socket = self.folder / "store.sock"
        store = pods.Process(["redis-server", "--port", "0", "--unixsocket", str(socket), "--save",
                              "", "--dir", str(self.folder)], dict(os.environ))
        self.addCleanup(store.stop)
        store.until("eady to accept connections")
        return [("redis://lfarm-store:6379", f"redis+unix://{socket}")]

    def test_one_serves_and_the_next_takes_over(self):
        changes = self.start_store()
        first, site = self.start_coordinator(changes)
        self.assert_probes(self.coordinator, site)
        self.assertEqual(self.api.holder("lfarm-coordinator"), "lfarm-coordinator-0")

        waits = self.pod(self.coordinator.workload, 1)
        second = waits.start(changes)
        self.addCleanup(second.stop)
        second_site = pods.Site(second)
        second.until("lease is lfarm-coordinator-0's")
        eventually("the second has started",
                   lambda: second_site.probe(waits.container, "startupProbe") == 200)
        self.assertEqual(second_site.probe(waits.container, "readinessProbe"), 503)
        self.assertEqual(second_site.probe(waits.container, "livenessProbe"), 200)

        worker, worker_site = self.start_worker()
        self.assert_probes(self.worker, worker_site)
        found = self.submit("--budget", "2", "--json")
        self.assertEqual(found.wait(), 0, found.said())
        worker.stop()

        # As when its node is lost. What it found is served, and nobody has to search for it.
        first.stop()
        self.serving(second)
        self.assert_probes(waits, second_site)
        self.assertEqual(self.api.holder("lfarm-coordinator"), "lfarm-coordinator-1")
        again = self.submit("--budget", "2", "--json")
        self.assertEqual(again.wait(), 0, again.said())
        self.assertIn('"hit"', again.said())

        second.terminate()
        self.assertEqual(second.wait(), 0, second.said())
        self.assertEqual(self.api.holder("lfarm-coordinator"), "")


class ASigner(Case):
    combination = "signer"

    def test_the_coordinator_signs_by_the_container_beside_it(self):
        if shutil.which("redis-server") is None:
            raise unittest.SkipTest("no redis-server here")
        socket = self.folder / "store.sock"
        store = pods.Process(["redis-server", "--port", "0", "--unixsocket", str(socket), "--save",
                              "", "--dir", str(self.folder)], dict(os.environ))
        self.addCleanup(store.stop)
        store.until("eady to accept connections")
        container = manifests.pod(self.coordinator.workload)["containers"][1]
        signer = self.coordinator.start(container=container)
        self.addCleanup(signer.stop)
        root = signer.until(r"signing key ([0-9a-f]{64})")[1]
        process, site = self.start_coordinator([("redis://lfarm-store:6379",
                                                 f"redis+unix://{socket}")])
        self.assertEqual(process.until(r"signing key ([0-9a-f]{64})")[1], root)
        self.assert_probes(self.coordinator, site)
        state = self.coordinator.paths["coordinator", "/var/lib/lfarm"]
        self.assertFalse((state / "signing.key").exists())
        delegation = self.outside["Secret", "lfarm-signer"]["delegation"]
        self.assertTrue(delegation.startswith(root))
        process.terminate()
        self.assertEqual(process.wait(), 0, process.said())
        signer.terminate()
        self.assertEqual(signer.wait(), 0, signer.said())


class Flags(unittest.TestCase):
    def test_every_flag_is_one_that_its_program_has(self):
        known = {}
        for name in manifests.COMBINATIONS:
            objects = manifests.load(name)
            for each, container in [(each, container) for each in objects.workloads()
                                    for container in manifests.pod(each)["containers"]]:
                flags = manifests.flags(objects, container)
                words = (manifests.binary(manifests.program(container)),)
                if "--role" in flags:
                    words += ("--role", flags["--role"])
                if words not in known:
                    text = subprocess.run([*words, "--help"], check=True, capture_output=True,
                                          text=True).stdout
                    known[words] = {"--role"} | set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))
                self.assertEqual(set(flags) - known[words], set(), manifests.title(each))


if __name__ == "__main__":
    manifests.main()
