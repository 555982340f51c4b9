"""A farm for the tests of the package, with a state directory of its own."""

import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
FIXTURES = pathlib.Path(os.environ.get("LFARM_FIXTURES", HERE.parent / "fixtures" / "models"))


@pytest.fixture(scope="session", autouse=True)
def state(tmp_path_factory):
    directory = tmp_path_factory.mktemp("state")
    os.environ["LFARM_STATE"] = str(directory)
    os.environ.pop("LFARM_FARM", None)
    # A sanitizer's runtime is for interpreters alone: what else they start has its own.
    if preload := os.environ.pop("LD_PRELOAD", None):
        os.environ["LFARM_PRELOAD"] = preload
    return directory


@pytest.fixture(scope="session")
def farm(state):
    command = [os.path.join(os.environ["LFARM_BIN"], "lfarm"), "up", "--workers", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line.startswith("farm at "), line
    yield line.split()[-1]
    process.terminate()
    assert process.wait() == 0


@pytest.fixture
def fixture():
    return lambda name: FIXTURES / name
