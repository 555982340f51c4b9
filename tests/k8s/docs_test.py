"""The commands of docs/operations.md: those on keys are run, all others name what there is. If this
fails, the manual sends people astray."""

import base64
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import manifests
import yaml

MANUAL = manifests.ROOT / "docs" / "operations.md"
# Runs what makes objects, and leaves everything that needs a cluster.
KUBECTL = """#!/bin/sh
case " $* " in
  *" --dry-run"*) exec "{kubectl}" "$@" ;;
  *" create secret "* | *" create configmap "*)
    "{kubectl}" "$@" --dry-run=client -o yaml >>"{objects}" && echo --- >>"{objects}" ;;
  *" apply -f - "*) cat >>"{objects}" && echo --- >>"{objects}" ;;
esac
"""


def section(title):
    text = MANUAL.read_text(encoding="utf-8")
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def commands(text):
    return [line for block in blocks(text, "sh") for line in block.splitlines()]


class Manual(unittest.TestCase):
    def setUp(self):
        self.text = MANUAL.read_text(encoding="utf-8")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lfarm-docs-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_lines(self, lines):
        """By kind and name, the data of the objects that the lines made."""
        shim = self.folder / "bin"
        shim.mkdir(exist_ok=True)
        objects = self.folder / "objects.yaml"
        objects.write_text("", encoding="utf-8")
        kubectl = shutil.which(manifests.kubectl())
        (shim / "kubectl").write_text(KUBECTL.format(kubectl=kubectl, objects=objects))
        (shim / "kubectl").chmod(0o755)
        path = f"{shim}:{manifests.binary('lfarm').parent}:{os.environ['PATH']}"
        for line in lines:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", line], cwd=self.folder,
                                  env={**os.environ, "PATH": path}, capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}{done.stderr}")
        return {(each["kind"], each["metadata"]["name"]): each["data"]
                for each in yaml.safe_load_all(objects.read_text(encoding="utf-8")) if each}

    def test_the_commands_on_keys_make_what_pods_mount(self):
        install = [line for line in commands(section("Install")) if "build.sh" not in line
                   and not re.search("apply -k|kustomize|rollout|port-forward|curl", line)]
        made = self.run_lines(install)
        made.update(self.run_lines(commands(section("Signer"))))
        made.update(self.run_lines(line for line in commands(self.text) if "lfarm-objects" in line))
        self.assertEqual({place: set(data) for place, data in made.items()}, manifests.MADE_OUTSIDE)
        old = base64.b64decode(made["Secret", "lfarm-worker"]["7.key"]).decode()

        clients = [line for line in commands(section("Clients")) if "lfarm submit" not in line]
        made = self.run_lines(clients)
        self.assertIn(" team-a submit,read\n", made["ConfigMap", "lfarm-public"]["allow"])
        self.assertEqual(len(made["ConfigMap", "lfarm-public"]["farm-key"]), 40)

        made = self.run_lines(commands(section("Rotate keys")))
        new = base64.b64decode(made["Secret", "lfarm-worker"]["7.key"]).decode()
        allowed = (self.folder / "farm-keys" / "allow").read_text(encoding="utf-8")
        public = [re.search(r"^public (\S+)", text, re.M)[1] for text in (old, new)]
        self.assertNotIn(public[0], allowed)
        self.assertIn(f"{public[1]} local worker\n", allowed)

    def test_lfarms_commands_and_flags_exist(self):
        lfarm = manifests.binary("lfarm")
        lines = {line for line in commands(self.text) if line.startswith("lfarm ")}
        lines |= set(re.findall(r"`(lfarm [a-z][^`]*)`", self.text))
        self.assertGreater(len(lines), 15)
        seen = {}
        for line in sorted(lines):
            words = line.replace("\n", " ").split()[1:]
            groups = ("keys", "cache", "plan")
            is_of_two = words[0] in groups or words[:2] == ["jobs", "trace"]
            command = tuple(words[:2] if is_of_two else words[:1])
            if command not in seen:
                done = subprocess.run([lfarm, *command, "--help"], capture_output=True, text=True,
                                      check=False)
                self.assertEqual(done.returncode, 0, line)
                seen[command] = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", done.stdout))
            flags = {word.split("=")[0] for word in words if word.startswith("--")}
            self.assertLessEqual(flags, seen[command], line)

    def test_the_overlay_of_ones_own_renders(self):
        kubectl = manifests.kubectl()
        tree = self.folder / "k8s"
        shutil.copytree(manifests.ROOT / "k8s", tree)
        ours = tree / "overlays" / "ours"
        ours.mkdir()
        (ours / "kustomization.yaml").write_text(blocks(section("Install"), "yaml")[0],
                                                 encoding="utf-8")
        done = subprocess.run([kubectl, "kustomize", str(ours)], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        objects = manifests.Objects(yaml.safe_load_all(done.stdout))
        for each in objects.workloads():
            for container in manifests.all_containers(each):
                self.assertRegex(container["image"], r"^ours/lfarm-[a-z-]+:0\.1\.0$")

    def test_it_names_what_there_is(self):
        objects = manifests.load("everything")
        kinds = {"statefulset": "StatefulSet", "deployment": "Deployment", "service": "Service"}
        for kind, name in re.findall(r"\b(statefulset|deployment|service)/([\w-]+)", self.text):
            self.assertIsNotNone(objects.named(kinds[kind], name), f"{kind}/{name}")
        claims = {f"{claim['metadata']['name']}-{each['metadata']['name']}-0"
                  for each in objects.coordinators()
                  for claim in each["spec"]["volumeClaimTemplates"]}
        self.assertLessEqual(set(re.findall(r"\bstate-lfarm[\w-]+", self.text)), claims)
        settings = next(each for each in objects.kind("ConfigMap")
                        if each["metadata"]["name"].startswith("lfarm-settings"))
        # AWS_: the environment of Amazon's tools, which an object store's keys come from.
        self.assertLessEqual(set(re.findall(r"`(?!AWS_)([A-Z]+_[A-Z_]+|SEARCHES)`", self.text)),
                             set(settings["data"]))
        for path in re.findall(r"\b(?:overlays|components)/[\w-]+", self.text):
            if path != "overlays/ours":
                self.assertTrue((manifests.ROOT / "k8s" / path).is_dir(), path)
        for path in re.findall(r"^(k8s/\S+\.sh)", "\n".join(commands(self.text)), re.M):
            self.assertTrue(os.access(manifests.ROOT / path, os.X_OK), path)


if __name__ == "__main__":
    manifests.main()
