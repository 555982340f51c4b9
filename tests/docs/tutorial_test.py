"""The commands of docs/tutorial.md, from its first to its last: if this fails, who follows it is led astray.

Blocks that need more than is here are left out: root and a wheel always, torch where /usr/bin/python3 has
none. LFARM_BIN has the programs, LFARM_LIBRARY is the library.
"""

import unittest

import documents

SETUP_TORCH = """import torch
from lfarm import compile as lfarm_compile
if "lfarm" not in torch._dynamo.list_backends():
    torch._dynamo.register_backend(lfarm_compile.backend, name="lfarm")
"""


def script():
    """The commands, and what was left out and why."""
    left, lines = [], []
    for block, needs in documents.blocks(documents.text("tutorial.md"), "sh"):
        first = block.splitlines()[0]
        if needs == "torch" and documents.has("torch"):
            block = block.replace("import torch\n", SETUP_TORCH, 1)
        elif needs not in ("", "kubernetes") or ("import lfarm" in block and not documents.has("numpy")):
            left.append(f"{first}: needs {needs or 'numpy'}")
            continue
        lines.append(f"echo '== {first.replace(chr(39), ' ')}'\n{block}")
    return "".join(lines).replace("7272", documents.free_port()), left


class Tutorial(unittest.TestCase):
    def test_its_commands_run_one_after_another(self):
        commands, left = script()
        for reason in left:
            print(f"left out: {reason}")
        shell = documents.Shell(self)
        shell.run(commands)
        self.assertIn("<html", (shell.work / "report.html").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
