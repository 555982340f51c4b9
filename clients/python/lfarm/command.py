"""The farm's programs where the package brings them: the commands lfarm, lfarm-coordinator and
lfarm-worker of an installed wheel."""

from __future__ import annotations

import os
import pathlib
import sys

BIN = pathlib.Path(__file__).resolve().parent / "bin"


def main() -> None:
    """Becomes the program of the name by which it was called."""
    name = pathlib.Path(sys.argv[0]).name
    program = BIN / name
    if not program.exists():
        sys.exit(f"{name}: no {program}: this package was built without the programs")
    os.execv(program, [name, *sys.argv[1:]])
