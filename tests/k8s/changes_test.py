"""What applying an edited overlay to a running farm comes to: if this fails, applying is refused, or
pods go on with settings that are no more, and docs/operations.md does not say so."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import manifests
import yaml
from docs_test import section
from manifests import COMBINATIONS, MADE_OUTSIDE, ROOT, Objects, sources, title

# By kind, the paths of what an API server takes once and never again.
FIXED = {
    "StatefulSet": ["spec.selector", "spec.serviceName", "spec.volumeClaimTemplates",
                    "spec.podManagementPolicy"],
    "Deployment": ["spec.selector"],
    "Job": ["spec.selector", "spec.template"],
    "PriorityClass": ["value", "preemptionPolicy"],
    "RoleBinding": ["roleRef"],
    "ClusterRoleBinding": ["roleRef"],
    "Service": ["spec.clusterIP"],
}
# In which overlays differ all the same; the manual says how to get from one to the other.
DIFFERS = {
    ("StatefulSet lfarm-coordinator", "spec.volumeClaimTemplates"),
    ("StatefulSet lfarm-coordinator", "spec.podManagementPolicy"),
}
OVERLAY = """apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: lfarm
resources: [{base}]
configMapGenerator:
  - name: lfarm-settings
    behavior: merge
    literals: [SEARCHES=9]
"""


def at(each, path):
    for name in path.split("."):
        each = each.get(name) if isinstance(each, dict) else None
    return each


def settings_of(spec):
    """Names of the ConfigMaps and Secrets that a pod has its environment from."""
    for container in spec.get("initContainers", []) + spec["containers"]:
        yield from sources(container)


class Changes(unittest.TestCase):
    def test_overlays_differ_in_nothing_that_cannot_be_changed(self):
        seen, differs = {}, set()
        for name in COMBINATIONS:
            for each in manifests.load(name):
                for path in FIXED.get(each["kind"], []):
                    key = (title(each), path)
                    if seen.setdefault(key, at(each, path)) != at(each, path):
                        differs.add(key)
        self.assertEqual(differs, DIFFERS)
        manual = section("Change a running farm")
        for _, path in DIFFERS:
            self.assertIn(f"`{path.rsplit('.', 1)[1]}`", manual)

    def test_nothing_is_made_immutable(self):
        for name in COMBINATIONS:
            for each in manifests.load(name).kind("ConfigMap", "Secret"):
                self.assertNotIn("immutable", each, f"{name}: {title(each)}")

    def test_settings_have_names_of_their_own(self):
        """So that pods are replaced with them; others are made outside, and the manual names them."""
        manual = section("Change a running farm")
        for name in COMBINATIONS:
            for each in manifests.load(name).workloads():
                for kind, source in settings_of(manifests.pod(each)):
                    if (kind, source) in MADE_OUTSIDE:
                        self.assertIn(f"`{source}`", manual)
                        continue
                    self.assertRegex(source, r"-[0-9a-z]{10}$", f"{name}: {title(each)}")

    def test_a_changed_setting_replaces_the_coordinator_and_no_worker(self):
        for name in ("dev", "gpu", "ha", "sharded"):
            with self.subTest(name):
                before, after = manifests.load(name), self.edited(COMBINATIONS[name])
                changed = {title(each) for each in after.workloads()
                           if each != before.named(each["kind"], each["metadata"]["name"])}
                self.assertEqual(changed, {"StatefulSet lfarm-coordinator"})

    def edited(self, path):
        with tempfile.TemporaryDirectory(prefix="lfarm-changes-") as folder:
            text = OVERLAY.format(base=os.path.relpath(ROOT / path, os.path.realpath(folder)))
            (pathlib.Path(folder) / "kustomization.yaml").write_text(text, encoding="utf-8")
            done = subprocess.run([manifests.kubectl(), "kustomize", folder],
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return Objects(yaml.safe_load_all(done.stdout))


if __name__ == "__main__":
    manifests.main()
