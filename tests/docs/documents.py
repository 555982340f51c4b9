"""Pages of docs/ as their tests read them: blocks of code with what they need, and quoted messages; and a
shell that runs blocks."""

import importlib.util
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
# What ctest takes as "skipped".
SKIPPED = 77
# For hangs.
PATIENCE_S = 1500

_BLOCK = re.compile(r"(?:^<!-- needs: (?P<needs>[\w, ]+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
# A remnant of a test that failed would go on.
_HEAD = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n"
# Looks whether there is what its arguments name, and asks no cluster.
_KUBECTL = """#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
    --from-file=*) ls -d "${1#--from-file=}" >/dev/null || exit 1 ;;
    -k) ls "$2/kustomization.yaml" >/dev/null || exit 1 ;;
  esac
  shift
done
"""


def text(name):
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(page, language):
    """Pairs of a block's text and what it needs: "" or the words of the remark before it."""
    return [(found["text"], found["needs"] or "") for found in _BLOCK.finditer(page)
            if found["language"] == language]


def messages(page):
    """The quoted paragraphs."""
    return [re.sub(r"\n> ?", " ", found[1]).strip() for found in re.finditer(r"^> (.*(?:\n> .*)*)", page, re.M)]


def has(module):
    return importlib.util.find_spec(module) is not None


def free_port():
    with socket.socket() as one:
        one.bind(("0.0.0.0", 0))
        return str(one.getsockname()[1])


class Shell:
    """A folder of the test's own, in which bash runs commands as after an installation: with lfarm's programs
    (LFARM_BIN), the interpreter that runs the test as python3, and a kubectl that only looks for files."""

    def __init__(self, case):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lfarm-docs-"))
        case.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.case, self.work, shim = case, folder / "work", folder / "shim"
        self.work.mkdir()
        shim.mkdir()
        preload = os.environ.get("LFARM_PRELOAD", "")
        python = f'#!/bin/sh\n{f"LD_PRELOAD={preload} " if preload else ""}exec {sys.executable} "$@"\n'
        for name, script in (("python3", python), ("kubectl", _KUBECTL)):
            (shim / name).write_text(script)
            (shim / name).chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{shim}:{os.environ['LFARM_BIN']}:{os.environ['PATH']}",
                            "LFARM_STATE": f"{folder}/state", "LFARM_SOURCE": str(ROOT)}
        self.environment.pop("LFARM_FARM", None)

    def run(self, commands):
        """What they print; the first that fails ends them, and the test."""
        done = subprocess.run(["bash", "-c", _HEAD + commands], cwd=self.work, env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=PATIENCE_S, check=False)
        self.case.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout
