"""The package as it is installed and checked: if these fail, pip installs one that does not run."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "clients" / "python"


def run(*command, **arguments):
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **arguments,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_pip_installs_it_into_an_environment_of_its_own(tmp_path, fixture):
    for module in ("venv", "ensurepip", "pip", "setuptools", "wheel"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{sys.executable} lacks {module}")
    # Its build leaves folders beside the sources.
    source = tmp_path / "source"
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    place = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--system-site-packages", place)
    # From this machine alone: what builds it comes from the system's packages.
    offline = ("--no-build-isolation", "--no-deps", "--no-index", "-q")
    run(place / "bin" / "python", "-m", "pip", "install", *offline, source)
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "LFARM_LIBRARY")
    }
    if "LFARM_PRELOAD" in environment:
        environment["LD_PRELOAD"] = environment["LFARM_PRELOAD"]
    script = (
        "import importlib.metadata, lfarm, numpy, pathlib\n"
        f"model = lfarm.load({str(fixture('mlp') / 'model.pt2')!r}, deadline=0)\n"
        "print(model(numpy.zeros((3, 16), numpy.float32)).shape)\n"
        "print(pathlib.Path(lfarm.__file__).parent)\n"
        "for point in importlib.metadata.distribution('lfarm').entry_points:\n"
        "    print(point.group, point.name, point.value)\n"
    )
    out = run(place / "bin" / "python", "-c", script, env=environment, cwd=tmp_path)
    assert "(3, 4)" in out
    assert str(place) in out, "the package came from elsewhere"
    assert "torch_dynamo_backends lfarm lfarm.compile:backend" in out


def test_type_hints_hold(tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(
        "import lfarm\n"
        "model: lfarm.Instance = lfarm.load('model.pt2', device='cpu')\n"
        "with model.profile() as profile:\n"
        "    model([1.0])\n"
        "total: int = profile.totals()[0][0].time_ns\n"
        "found: lfarm.Model = lfarm.Session(sizes='s0=1').find('0' * 64)\n"
    )
    environment = {**os.environ, "MYPYPATH": str(PACKAGE)}
    needs_torch = ("compile.py", "graphs.py", "training.py", "written_out.py", "written_step.py")
    files = [file for file in (PACKAGE / "lfarm").glob("*.py") if file.name not in needs_torch]
    run(
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-warn-unused-ignores",
        "--cache-dir",
        tmp_path / "cache",
        *files,
        program,
        env=environment,
        cwd=tmp_path,
    )


def test_everything_public_says_what_it_is():
    import lfarm

    for name in lfarm.__all__:
        part = getattr(lfarm, name)
        assert part.__doc__, name
        for member, value in vars(part).items() if isinstance(part, type) else ():
            if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                assert value.__doc__, f"{name}.{member}"
