"""The manifests render, to what tests/k8s/rendered holds: if this fails, the other tests look at
something else than what a cluster gets. LFARM_UPDATE_GOLDEN=1 writes the files again."""

import os
import subprocess
import unittest

import manifests
import yaml

HEADER = "# Rendered from {}; render_test.py writes it.\n"


def render(path):
    result = subprocess.run(
        [manifests.kubectl(), "kustomize", str(manifests.ROOT / path)],
        capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise AssertionError(f"kubectl kustomize {path}: {result.stderr}")
    if result.stderr:
        raise AssertionError(f"kubectl kustomize {path} warns: {result.stderr}")
    return result.stdout


class Rendering(unittest.TestCase):
    def test_every_combination_renders_to_its_file(self):
        for name, path in manifests.COMBINATIONS.items():
            with self.subTest(name):
                text = render(path)
                file = manifests.RENDERED / f"{name}.yaml"
                if os.environ.get("LFARM_UPDATE_GOLDEN"):
                    file.write_text(HEADER.format(path) + text, encoding="utf-8")
                self.assertEqual(list(yaml.safe_load_all(text)), list(manifests.load(name)),
                                 f"{file} is old: LFARM_UPDATE_GOLDEN=1 {__file__}")

    def test_every_overlay_and_component_is_part_of_a_combination(self):
        rendered = set()
        for path in manifests.COMBINATIONS.values():
            rendered |= reached(manifests.ROOT / path)
        there = {file.parent for file in (manifests.ROOT / "k8s").rglob("kustomization.yaml")}
        self.assertEqual(there - rendered, set())


def reached(folder):
    """The kustomizations that this one takes in, itself included."""
    folder = folder.resolve()
    found = {folder}
    content = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    for other in content.get("resources", []) + content.get("components", []):
        if (folder / other).is_dir():
            found |= reached(folder / other)
    return found


if __name__ == "__main__":
    manifests.main()
