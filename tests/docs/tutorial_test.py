"""The commands of docs/tutorial.md, from its first to its last: if this fails, who follows it is led astray.

Blocks that need more than is here are left out: root, a wheel and a cluster always, torch where
/usr/bin/python3 has none. LFARM_BIN has the programs, LFARM_LIBRARY is the library.
"""

import importlib.util
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import documents

PATIENCE_S = 1500
# A remnant of a test that failed would go on.
HEAD = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n"
SETUP_TORCH = """import torch
from lfarm import compile as lfarm_compile
if "lfarm" not in torch._dynamo.list_backends():
    torch._dynamo.register_backend(lfarm_compile.backend, name="lfarm")
"""


def free_port():
    with socket.socket() as one:
        one.bind(("0.0.0.0", 0))
        return str(one.getsockname()[1])


def has(module):
    return importlib.util.find_spec(module) is not None


def script():
    """The commands, and what was left out and why."""
    left, lines = [], [HEAD]
    for block, needs in documents.blocks(documents.text("tutorial.md"), "sh"):
        first = block.splitlines()[0]
        if needs == "torch" and has("torch"):
            block = block.replace("import torch\n", SETUP_TORCH, 1)
        elif needs or ("import lfarm" in block and not has("numpy")):
            left.append(f"{first}: needs {needs or 'numpy'}")
            continue
        lines.append(f"echo '== {first.replace(chr(39), ' ')}'\n{block}")
    return "".join(lines).replace("7272", free_port()), left


class Tutorial(unittest.TestCase):
    def test_its_commands_run_one_after_another(self):
        binaries = pathlib.Path(os.environ["LFARM_BIN"])
        folder = tempfile.mkdtemp(prefix="lfarm-tutorial-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        commands, left = script()
        for reason in left:
            print(f"left out: {reason}")
        # Of the system's own interpreter, whatever else is called python3.
        shim = pathlib.Path(folder) / "python"
        shim.mkdir()
        preload = os.environ.get("LFARM_PRELOAD", "")
        (shim / "python3").write_text(
            f'#!/bin/sh\n{f"LD_PRELOAD={preload} " if preload else ""}exec {sys.executable} "$@"\n')
        (shim / "python3").chmod(0o755)
        environment = {**os.environ, "PATH": f"{shim}:{binaries}:{os.environ['PATH']}",
                       "LFARM_STATE": f"{folder}/state", "LFARM_SOURCE": str(documents.ROOT)}
        environment.pop("LFARM_FARM", None)
        work = pathlib.Path(folder) / "work"
        work.mkdir()
        done = subprocess.run(["bash", "-c", commands], cwd=work, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("<html", (work / "report.html").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
