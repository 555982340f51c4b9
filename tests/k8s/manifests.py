"""The rendered manifests as Python objects, and the few questions that several tests ask of them."""

import copy
import functools
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).resolve().parent
RENDERED = HERE / "rendered"
# What ctest takes as "skipped".
SKIPPED = 77

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(SKIPPED)

# Each is rendered into rendered/NAME.yaml, which the other tests read: they need no kubectl.
COMBINATIONS = {
    "dev": "k8s/overlays/dev",
    "everything": "tests/k8s/combinations/everything",
    "gpu": "k8s/overlays/gpu",
    "ha": "k8s/overlays/ha",
    "hpa": "tests/k8s/combinations/hpa",
    "objects": "tests/k8s/combinations/objects",
    "searchers": "tests/k8s/combinations/searchers",
    "sharded": "k8s/overlays/sharded",
    "signer": "tests/k8s/combinations/signer",
}

# Made by the commands of docs/operations.md, which a test compares with this.
MADE_OUTSIDE = {
    ("Secret", "lfarm-farm"): {"farm.key", "signing.key"},
    ("Secret", "lfarm-objects"): {"OBJECTS", "AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID",
                                  "AWS_SECRET_ACCESS_KEY"},
    ("Secret", "lfarm-signer"): {"signing.key", "delegation"},
    ("Secret", "lfarm-worker"): {f"{k}.key" for k in range(64)},
    ("ConfigMap", "lfarm-public"): {"allow", "farm-key"},
}


def load(name):
    """The objects of a combination. Each caller may change its own."""
    return Objects(copy.deepcopy(_parsed(name)))


@functools.cache
def _parsed(name):
    with open(RENDERED / f"{name}.yaml", encoding="utf-8") as file:
        return list(yaml.safe_load_all(file))


class Objects(list):
    """Kubernetes objects, in the order in which they were rendered."""

    def kind(self, *kinds):
        return [each for each in self if each["kind"] in kinds]

    def named(self, kind, name):
        found = [each for each in self.kind(kind) if each["metadata"]["name"] == name]
        return found[0] if found else None

    def workloads(self):
        return self.kind("Deployment", "StatefulSet")

    def workers(self):
        return [each for each in self.workloads() if component(each) == "worker"]

    def searchers(self):
        return [each for each in self.workloads() if component(each) == "searcher"]

    def coordinators(self):
        return [each for each in self.workloads() if component(each) == "coordinator"]


def pod(workload):
    return workload["spec"]["template"]["spec"]


def labels(workload):
    return workload["spec"]["template"]["metadata"]["labels"]


def component(workload):
    return labels(workload).get("app.kubernetes.io/component")


def main_container(workload):
    return pod(workload)["containers"][0]


def all_containers(workload):
    return pod(workload).get("initContainers", []) + pod(workload)["containers"]


def program(container):
    return container["command"][0].rsplit("/", 1)[-1]


def sources(container):
    """The kinds and names of the objects whose data are variables of a container."""
    for source in container.get("envFrom", []):
        for kind, field in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
            if field in source:
                yield kind, source[field]["name"]


def environment(objects, container):
    """Names to values; None for what comes from objects that are made outside."""
    values = {}
    for kind, name in sources(container):
        settings = objects.named(kind, name)
        values.update(settings["data"] if settings
                      else dict.fromkeys(MADE_OUTSIDE.get((kind, name), ())))
    for entry in container.get("env", []):
        values[entry["name"]] = entry.get("value")
    return values


def expand(text, values):
    """As a kubelet does: $(NAME) of what is set, anything else stays."""

    def value(match):
        found = values.get(match[1])
        return match[0] if found is None else found

    return re.sub(r"\$\(([A-Za-z_]\w*)\)", value, text)


def flags(objects, container):
    """--name=value arguments, as a dictionary with the settings put in."""
    values = environment(objects, container)
    pairs = (expand(argument, values).split("=", 1) for argument in container.get("args", []))
    return {pair[0]: pair[1] if len(pair) > 1 else "" for pair in pairs}


def matches(selector, its_labels):
    """A label selector of matchLabels and matchExpressions with In; an empty one takes all."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if its_labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions") or []:
        if expression["operator"] != "In":
            raise ValueError(f"operator {expression['operator']} is not evaluated")
        if its_labels.get(expression["key"]) not in expression["values"]:
            return False
    return True


def title(each):
    return f"{each['kind']} {each['metadata']['name']}"


def kubectl():
    """A kubectl that knows components; skips the test where there is none."""
    try:
        version = subprocess.run(
            ["kubectl", "version", "--client"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        raise unittest.SkipTest("no kubectl here") from None
    found = re.search(r"Kustomize Version: v(\d+)\.", version)
    if found is None or int(found[1]) < 5:
        raise unittest.SkipTest("this kubectl's kustomize is older than 5, which the manifests need")
    return "kubectl"


def binary(name):
    path = pathlib.Path(os.environ.get("LFARM_BIN", ROOT / "build" / "bin")) / name
    if not path.exists():
        raise unittest.SkipTest(f"{path} is not built")
    return path


def shared(name):
    path = ROOT.parent / "shared" / name
    if not path.exists():
        raise unittest.SkipTest(f"no {path} here")
    return path


def main():
    """Runs the calling module's tests; exits with SKIPPED when all of them were skipped."""
    program_ = unittest.main(module="__main__", exit=False, verbosity=1)
    result = program_.result
    for case, reason in result.skipped:
        print(f"skipped: {case.id().split('.', 1)[-1]}: {reason}")
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.testsRun and len(result.skipped) == result.testsRun else 0)
