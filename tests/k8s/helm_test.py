"""The chart installs what the kustomizations install: if this fails, farms differ by the tool that set
them up. The part of Helm's template language that make_chart.py writes is rendered here; Helm itself
renders too where it is installed."""

import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import manifests
import yaml

HELM = manifests.ROOT / "k8s" / "helm"
CHART = HELM / "lfarm"
sys.path.insert(0, str(HELM))
import make_chart  # noqa: E402

ACTION = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.S)


def merged(values, over):
    if not isinstance(values, dict) or not isinstance(over, dict):
        return over
    return {**values, **{name: merged(values.get(name), each) for name, each in over.items()}}


def go_json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


FUNCTIONS = {
    "default": lambda given, value: value or given,
    "quote": json.dumps,
    "sha256sum": lambda value: hashlib.sha256(value.encode()).hexdigest(),
    "toJson": go_json,
    "trunc": lambda length, value: value[:length],
}


class Renderer:
    """Actions are `if PATH`, `end`, comments and PATH | FUNCTION ARGUMENT | ...; anything else is an error."""

    def __init__(self, values, namespace):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
        self.scope = {"Values": values, "Release": {"Namespace": namespace},
                      "Chart": {"AppVersion": str(chart["appVersion"])}}
        self.used = set()

    def value(self, word):
        if not word.startswith("."):
            return int(word)
        self.used.add(word)
        value = self.scope
        for name in word[1:].split("."):
            value = value[name]
        return value

    def evaluated(self, action):
        first, *pipes = (part.split() for part in action.split("|"))
        (word,) = first
        value = self.value(word)
        for name, *arguments in pipes:
            value = FUNCTIONS[name](*map(self.value, arguments), value)
        return value

    def render(self, text):
        out, kept, at = "", [True], 0
        for found in ACTION.finditer(text):
            between, at = text[at:found.start()], found.end()
            if found[1]:
                between = between.rstrip()
            out += between if all(kept) else ""
            action = found[2]
            if action.startswith("/*"):
                continue
            if action.startswith("if "):
                kept.append(bool(self.evaluated(action[3:])))
            elif action == "end":
                kept.pop()
            elif all(kept):
                out += str(self.evaluated(action))
        return out + text[at:]


def values(*files):
    result = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    for file in files:
        result = merged(result, yaml.safe_load(file.read_text(encoding="utf-8")))
    return result


def rendered(renderer):
    text = "".join(renderer.render(file.read_text(encoding="utf-8")) + "\n"
                   for file in sorted((CHART / "templates").glob("*.yaml")))
    return [each for each in yaml.safe_load_all(text) if each]


def by_name(objects):
    """Kinds and names to objects, whose ConfigMap of settings has a name without a hash."""
    text = re.sub(r"lfarm-settings-\w+", "lfarm-settings", yaml.safe_dump_all(objects))
    plain = [given(each) for each in yaml.safe_load_all(text)]
    return {(each["kind"], each["metadata"]["name"]): each for each in plain}


def given(each):
    """Without what is null, which an API server takes for what is not there."""
    if isinstance(each, dict):
        return {name: given(value) for name, value in each.items() if value is not None}
    return [given(one) for one in each] if isinstance(each, list) else each


CASES = {"dev": [HELM / "values-dev.yaml"], "gpu": [HELM / "values-gpu.yaml"],
         "searchers": [HELM / "values-gpu.yaml", HELM / "values-searchers.yaml"]}


class Chart(unittest.TestCase):
    maxDiff = None

    def assert_same(self, objects, name):
        ours, theirs = by_name(objects), by_name(manifests.load(name))
        self.assertEqual(set(ours), set(theirs))
        for key, each in theirs.items():
            self.assertEqual(ours[key], each, key)

    def test_templates_are_those_of_the_manifests(self):
        wanted = make_chart.templates(list(manifests.load("searchers")))
        there = {file.name: file.read_text(encoding="utf-8")
                 for file in (CHART / "templates").glob("*.yaml")}
        self.assertEqual(there, wanted, "old: run k8s/helm/make_chart.py")

    def test_it_renders_to_what_kustomize_renders(self):
        for name, files in CASES.items():
            with self.subTest(name):
                given = merged(values(*files), {"namespace": {"create": True}})
                self.assert_same(rendered(Renderer(given, "lfarm")), name)

    def test_every_value_is_used(self):
        renderer = Renderer(values(*CASES["searchers"]), "lfarm")
        rendered(renderer)
        used = {name for name in renderer.used if name.startswith(".Values.")}

        def leaves(value, path):
            if path in used or not isinstance(value, dict):
                return {path}
            return {leaf for name, each in value.items() for leaf in leaves(each, f"{path}.{name}")}

        # The namespace is left out here, whose value is looked at nevertheless.
        self.assertEqual(leaves(values(), ".Values") - used, set())

    def test_settings_rename_their_map_and_replace_pods(self):
        first = rendered(Renderer(values(), "lfarm"))
        second = rendered(Renderer(merged(values(), {"settings": {"SEARCHES": "5"}}), "lfarm"))
        names = [[each["metadata"]["name"] for each in objects if each["kind"] == "ConfigMap"]
                 for objects in (first, second)]
        self.assertNotEqual(*names)
        self.assertIn(names[1][0], yaml.safe_dump([each for each in second
                                                   if each["kind"] == "StatefulSet"]))

    def test_another_namespace_is_everywhere(self):
        for each in rendered(Renderer(merged(values(), {"namespace": {"create": True}}), "team")):
            at = each["metadata"]["name" if each["kind"] == "Namespace" else "namespace"] \
                if each["kind"] != "PriorityClass" else "team"
            self.assertEqual(at, "team", manifests.title(each))

    def test_it_has_lfarms_version(self):
        lists = (manifests.ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        version = re.search(r"project\(lfarm VERSION (\S+)", lists)[1]
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
        self.assertEqual((chart["version"], chart["appVersion"]), (version, version))

    def test_helm_renders_the_same(self):
        if shutil.which("helm") is None:
            raise unittest.SkipTest("no helm here")
        for name, files in CASES.items():
            given = [part for file in files for part in ("-f", str(file))]
            done = subprocess.run(["helm", "template", "lfarm", str(CHART), "-n", "lfarm", "--set",
                                   "namespace.create=true", *given], check=True, capture_output=True, text=True)
            self.assert_same([each for each in yaml.safe_load_all(done.stdout) if each], name)


if __name__ == "__main__":
    manifests.main()
