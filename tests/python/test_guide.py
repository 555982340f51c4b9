"""The examples of docs/python.md: if these fail, the guide shows what does not run."""

import importlib.util
import pathlib
import re
import shutil
import sys
import warnings

import lfarm
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "python.md"
FILES = {"model.pt2": "models/mlp", "dynamic.pt2": "models/mlp_dynamic", "kv_step.pt2": "models/kv_step"}

sys.path.insert(0, str(ROOT / "tests" / "docs"))
documents = pytest.importorskip("documents")


def sections():
    """Titles of the guide's sections to their examples."""
    parts = re.split(r"^## (.*)\n", GUIDE.read_text(encoding="utf-8"), flags=re.M)[1:]
    found = {title: documents.blocks(text, "python") for title, text in zip(parts[::2], parts[1::2])}
    return {title: examples for title, examples in found.items() if examples}


@pytest.fixture
def folder(fixture, tmp_path, monkeypatch):
    fixtures = fixture("mlp").parent.parent
    for name, case in FILES.items():
        shutil.copy(fixtures / case / "model.pt2", tmp_path / name)
    shutil.copytree(fixtures / "decoder", tmp_path / "decoder")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def prepare_torch():
    import torch

    from lfarm import compile as lfarm_compile

    torch.manual_seed(0)
    torch._dynamo.reset()
    # Where the package is installed, its entry point does this.
    if "lfarm" not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(lfarm_compile.backend, name="lfarm")


@pytest.mark.skipif(not GUIDE.exists(), reason="no docs beside these tests")
@pytest.mark.parametrize("title", sections() if GUIDE.exists() else [])
def test_the_examples_run(title, folder, farm):
    names = {}
    for example, needs in sections()[title]:
        if needs == "torch":
            if importlib.util.find_spec("torch") is None:
                pytest.skip("no torch here")
            prepare_torch()
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            exec(compile(example, f"docs/python.md: {title}", "exec"), names)


def test_the_guide_names_every_option_and_mode():
    from lfarm import options

    text = GUIDE.read_text(encoding="utf-8")
    for name in [*options._MODES, *lfarm.__all__]:
        if name not in ("Call", "Kernel", "Model", "Plan", "Profile", "Instance", "TrainStep"):
            assert name in text, name
