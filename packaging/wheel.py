"""Writes a wheel of a build: the Python package, liblfarm and the programs beside it.

wheel.py BUILD OUT [--glibc VERSION]. --glibc: fail where a program or the library needs a newer glibc.
The standard library alone: no setuptools, no network. What a wheel holds is laid down in the packaging
guide's "Binary distribution format"; the same build gives the same bytes.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

try:
    import tomllib
except ImportError:  # before Python 3.11
    sys.exit("wheel.py needs Python 3.11 to read pyproject.toml")

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "clients" / "python"
PROGRAMS = ("lfarm", "lfarm-coordinator", "lfarm-worker")
TAG = "py3-none-linux_x86_64"
# Of the zip's entries, where SOURCE_DATE_EPOCH says nothing else: the first that a zip can express.
EPOCH = 315532800


def stripped(source: pathlib.Path, *options: str) -> bytes:
    """A file without the names of functions that nobody can call."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / source.name
        shutil.copy(source, copy)
        subprocess.run(["strip", *options, copy], check=True)
        return copy.read_bytes()


def glibc_of(file: pathlib.Path) -> tuple[int, ...]:
    """The newest version of glibc among those that the file's symbols name."""
    names = subprocess.run(["objdump", "-T", file], check=True, capture_output=True, text=True).stdout
    versions = (found.split(".") for found in re.findall(r"\bGLIBC_([0-9.]+)", names))
    return max((tuple(map(int, version)) for version in versions), default=(0,))


def said_version(build: pathlib.Path) -> str:
    said = subprocess.run([build / "bin" / "lfarm", "--version"], check=True, capture_output=True, text=True)
    return said.stdout.split()[-1]


def metadata(project: dict) -> str:
    """METADATA of a [project] table."""
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}",
             f"Summary: {project['description']}", f"Requires-Python: {project['requires-python']}"]
    lines += [f"Requires-Dist: {one}" for one in project.get("dependencies", [])]
    for extra, wanted in project.get("optional-dependencies", {}).items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {one}; extra == "{extra}"' for one in wanted]
    lines += ["Platform: linux", "Classifier: Operating System :: POSIX :: Linux",
              "Classifier: Programming Language :: Python :: 3"]
    readme = (PACKAGE / "README.md").read_text(encoding="utf-8")
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", readme])


def entry_points(project: dict) -> str:
    groups = {**project.get("entry-points", {}),
              "console_scripts": {name: "lfarm.command:main" for name in PROGRAMS}}
    return "\n".join(f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
                     for group, points in sorted(groups.items()))


def contents(build: pathlib.Path, project: dict) -> dict[str, tuple[bytes, int]]:
    """Paths in the wheel to bytes and mode; all but RECORD."""
    info = f"{project['name']}-{project['version']}.dist-info"
    wheel = f"Wheel-Version: 1.0\nGenerator: lfarm ({project['version']})\nRoot-Is-Purelib: false\nTag: {TAG}\n"
    files = {f"lfarm/{each.name}": (each.read_bytes(), 0o644)
             for each in sorted((PACKAGE / "lfarm").iterdir()) if each.suffix in (".py", ".typed")}
    library = build / "lib" / "liblfarm.so.1"
    files["lfarm/liblfarm.so.1"] = (stripped(library.resolve(), "--strip-unneeded"), 0o755)
    for name in PROGRAMS:
        files[f"lfarm/bin/{name}"] = (stripped(build / "bin" / name), 0o755)
    for name, text in (("METADATA", metadata(project)), ("WHEEL", wheel),
                       ("entry_points.txt", entry_points(project))):
        files[f"{info}/{name}"] = (text.encode(), 0o644)
    return files


def record(files: dict[str, tuple[bytes, int]], own: str) -> str:
    """RECORD: each file with its digest and size, and itself with neither."""
    lines = []
    for path, (content, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}\n")
    return "".join([*lines, f"{own},,\n"])


def write(path: pathlib.Path, files: dict[str, tuple[bytes, int]]) -> None:
    moment = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", EPOCH)))[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (content, mode) in files.items():
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--glibc", help="the newest one that may be needed, as 2.34")
    given = parser.parse_args()
    with open(PACKAGE / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    if said_version(given.build) != project["version"]:
        sys.exit(f"{given.build}/bin/lfarm is {said_version(given.build)}, clients/python/pyproject.toml"
                 f" {project['version']}: one version belongs into both")
    needed = max(glibc_of(file) for file in (*(given.build / "bin" / name for name in PROGRAMS),
                                             given.build / "lib" / "liblfarm.so.1"))
    dotted = ".".join(map(str, needed))
    if given.glibc and needed > tuple(map(int, given.glibc.split("."))):
        sys.exit(f"{given.build} needs glibc {dotted}, more than {given.glibc}: build on Debian 12, or see"
                 " with `objdump -T` which symbols are new")
    files = contents(given.build, project)
    own = f"{project['name']}-{project['version']}.dist-info/RECORD"
    files[own] = (record(files, own).encode(), 0o644)
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / f"{project['name']}-{project['version']}-{TAG}.whl"
    write(path, files)
    print(f"{path}: {path.stat().st_size} bytes, for glibc {dotted} and newer")


if __name__ == "__main__":
    main()
