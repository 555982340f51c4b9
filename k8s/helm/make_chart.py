"""Writes the chart's templates from what kustomize renders of tests/k8s/combinations/searchers, which is
k8s/overlays/gpu with autoscaled searchers, so that both install the same objects: make_chart.py, after a change of the manifests (kubectl is needed).

What values.yaml sets takes the place of what the manifests have there. Only `if`,
names of values and the functions default, quote, sha256sum, toJson and trunc occur in templates: tests/k8s
renders these without Helm.
"""

from __future__ import annotations

import pathlib
import re
import subprocess

import yaml

HERE = pathlib.Path(__file__).resolve().parent
CHART = HERE / "lfarm"
OVERLAY = HERE.parent.parent / "tests" / "k8s" / "combinations" / "searchers"
NOTE = "{{/* Written by make_chart.py from k8s: change that. */}}\n"

SETTINGS = "lfarm-settings"
SETTINGS_NAME = SETTINGS + "-{{ .Values.settings | toJson | sha256sum | trunc 10 }}"


def kind_of_worker(each: dict) -> str | None:
    """cpu, l4, ...: of a worker's objects, the variant."""
    found = re.fullmatch(r"lfarm-worker-(\w+)", each["metadata"]["name"])
    return found[1] if found and each["kind"] != "NetworkPolicy" else None


def template_of(each: dict) -> tuple[str, str | None]:
    """The file that an object belongs in, and the value without which it is left out."""
    kinds = {"Namespace": ("namespace", ".Values.namespace.create"), "ServiceAccount": ("accounts", None),
             "PriorityClass": ("priorities", ".Values.priorities.create"), "NetworkPolicy": ("network", None),
             "ConfigMap": ("settings", None)}
    worker = kind_of_worker(each)
    if worker is not None:
        return f"worker-{worker}", f".Values.workers.{worker}.enabled"
    name = each["metadata"]["name"]
    if each["kind"] == "ScaledObject" or name == "lfarm-keda-searchers":
        return "searchers-scaled", ".Values.searchers.scale.enabled"
    if name in ("lfarm-searcher", "lfarm-coordinator-searchers"):
        return "searchers", ".Values.searchers.enabled"
    return kinds.get(each["kind"], ("coordinator", None))


class Marks:
    """Expressions, in the place of which a mark is dumped as YAML: YAML would quote an expression."""

    def __init__(self) -> None:
        self.expressions: list[str] = []

    def mark(self, expression: str) -> str:
        self.expressions.append(expression)
        return f"mark{len(self.expressions) - 1}kram"

    def filled(self, text: str) -> str:
        return re.sub(r"mark(\d+)kram", lambda found: self.expressions[int(found[1])], text)


def set_values(each: dict, marks: Marks) -> None:
    """Puts marks where values.yaml has a say."""
    worker = kind_of_worker(each)
    if each["kind"] == "Namespace":
        each["metadata"]["name"] = marks.mark("{{ .Release.Namespace }}")
    elif "namespace" in each["metadata"]:
        each["metadata"]["namespace"] = marks.mark("{{ .Release.Namespace }}")
    if each["kind"] == "ConfigMap":
        each["metadata"]["name"] = marks.mark(SETTINGS_NAME)
        for name in each["data"]:
            each["data"][name] = marks.mark("{{ .Values.settings.%s | quote }}" % name)
    if each["kind"] == "ScaledObject":
        each["spec"]["maxReplicaCount"] = marks.mark("{{ .Values.searchers.scale.max }}")
        for trigger in each["spec"]["triggers"]:
            # The coordinator's full name has the namespace in it.
            trigger["metadata"]["url"] = trigger["metadata"]["url"].replace(
                ".lfarm.svc", marks.mark(".{{ .Release.Namespace }}.svc"))
    if each["kind"] not in ("Deployment", "StatefulSet"):
        return
    is_searcher = each["metadata"]["name"] == "lfarm-searcher"
    values = f".Values.workers.{worker}" if worker else ".Values.coordinator"
    if is_searcher:
        values = ".Values.searchers"
    pod = each["spec"]["template"]["spec"]
    for container in pod.get("initContainers", []) + pod["containers"]:
        image = container["image"].split(":")[0]
        container["image"] = marks.mark(
            "{{ .Values.images.prefix }}%s:{{ .Values.images.tag | default .Chart.AppVersion }}" % image)
        for source in container.get("envFrom", []):
            source["configMapRef"]["name"] = marks.mark(SETTINGS_NAME)
    pod["containers"][0]["resources"] = marks.mark("{{ %s.resources | toJson }}" % values)
    if worker:
        each["spec"]["replicas"] = marks.mark("{{ %s.replicas }}" % values)
    if is_searcher:
        # null where the autoscaler says how many.
        each["spec"]["replicas"] = marks.mark("{{ %s.replicas | toJson }}" % values)
    for claim in each["spec"].get("volumeClaimTemplates", []):
        claim["spec"]["resources"]["requests"]["storage"] = marks.mark("{{ %s.storage }}" % values)


def templates(objects: list[dict]) -> dict[str, str]:
    """Text by file name. Changes the objects."""
    texts: dict[str, str] = {}
    for each in objects:
        name, condition = template_of(each)
        marks = Marks()
        set_values(each, marks)
        text = marks.filled(yaml.safe_dump(each, sort_keys=False, width=100, allow_unicode=True))
        if condition:
            text = "{{- if %s }}\n---\n%s{{- end }}\n" % (condition, text)
        else:
            text = "---\n" + text
        texts[name] = texts.get(name, NOTE) + text
    return {f"{name}.yaml": text for name, text in texts.items()}


def main() -> None:
    done = subprocess.run(["kubectl", "kustomize", str(OVERLAY)], check=True, capture_output=True, text=True)
    folder = CHART / "templates"
    for file in folder.glob("*.yaml"):
        file.unlink()
    for name, text in templates(list(yaml.safe_load_all(done.stdout))).items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
