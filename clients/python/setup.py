"""Puts liblfarm beside the package's modules: $LFARM_LIBRARY, or what `make build` left."""

import os
import pathlib
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        built = HERE.parent.parent / "build" / "lib" / "liblfarm.so.1"
        library = pathlib.Path(os.environ.get("LFARM_LIBRARY", built))
        if not library.exists():
            raise SystemExit(f"no library at {library}: run `make build`, or set LFARM_LIBRARY")
        copy = pathlib.Path(self.build_lib) / "lfarm" / "liblfarm.so.1"
        shutil.copy(library, copy)
        strip = shutil.which("strip")
        if strip is not None:  # a fifth of it is names of functions that nobody can call
            subprocess.run([strip, "--strip-unneeded", copy], check=True)


setup(cmdclass={"build_py": BuildWithLibrary})
