"""Logs of trainings and validations: if these fail, `lfarm report` refuses what a training loop wrote, or a
run that died leaves nothing."""

import json
import os
import pathlib
import subprocess

import lfarm
import pytest

LFARM = os.path.join(os.environ["LFARM_BIN"], "lfarm")


def lines(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.jsonl"


def test_lines_are_there_before_the_end(file):
    log = lfarm.TrainingLog(file, "mlp", note="a note")
    log.values(3, {"loss/all": 0.123456789, "error": float("nan")})
    head, values = lines(file)
    assert head["training"] == "mlp" and head["note"] == "a note" and "device" not in head
    assert values == {"step": 3, "values": {"loss/all": 0.123457, "error": None}}
    log.close()
    log.close()


def test_a_file_takes_more_than_one_log(file):
    with lfarm.TrainingLog(file, "mlp") as log:
        log.values(0, {"loss": 1})
    with lfarm.ValidationLog(file, "mlp", teacher="model", device="cpu") as log:
        log.variant("model", 8, 1.5, 1e-6)
        log.measure("hard", 8, lambda: None, 2e-6, rounds=4)
    heads = [line for line in lines(file) if "at" in line]
    assert [next(iter(head)) for head in heads] == ["training", "validation"]
    assert lines(file)[-1]["variant"] == "hard" and lines(file)[-1]["latency_ms"] >= 0


def test_maps_are_rows_of_numbers(file):
    class Tensor:
        def detach(self):
            return self

        def cpu(self):
            return self

        def tolist(self):
            return [[1, 2], [3, float("inf")]]

    with lfarm.TrainingLog(file, "mlp") as log:
        log.map("gates", Tensor(), 5, rows="stage", columns="butterfly")
        log.map("mask", [0.5, 1])
        for wrong in ([[1, 2], [3]], [[[1]]], [], [[0] * 257] * 256):
            with pytest.raises(ValueError):
                log.map("wrong", wrong)
    _, gates, mask = lines(file)
    assert gates["values"] == [[1, 2], [3, None]] and gates["rows"] == "stage"
    assert mask["values"] == [[0.5, 1]] and "rows" not in mask


@pytest.mark.parametrize("name", ["", "two\nlines", "x" * 257, "é" * 129])
def test_names_that_no_import_takes_are_refused(file, name):
    with pytest.raises(ValueError):
        lfarm.TrainingLog(file, name)
    with lfarm.TrainingLog(file, "mlp") as log, pytest.raises(ValueError):
        log.values(0, {name: 1})


def test_a_report_shows_them(file, tmp_path):
    with lfarm.TrainingLog(file, "my <b>training</b>", device="cpu") as log:
        for step in range(30):
            log.values(step, {"loss/all": 1 / (1 + step), "loss/mel": 0.1})
        log.map("mask", [0.25, 0.5, 0.75])
        log.part("head", 10, {"parameters": 40, "gradients": 40})
    db, page = tmp_path / "run.db", tmp_path / "run.html"
    subprocess.run([LFARM, "report", "import", file, "--db", db], check=True)
    subprocess.run([LFARM, "report", "--db", db, "-o", page], check=True)
    text = page.read_text()
    assert "my &lt;b&gt;training&lt;/b&gt;" in text and "<b>training" not in text
    for words in ("loss", "mask", "head"):
        assert words in text


class TestWithTorch:
    @pytest.fixture(autouse=True)
    def torch(self):
        return pytest.importorskip("torch")

    def test_parts_are_those_of_a_module(self, torch, file):
        module = torch.nn.Sequential(
            torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)),
            torch.nn.Linear(3, 2),
        )
        optimiser = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        module(torch.randn(5, 4)).sum().backward()
        optimiser.step()
        with lfarm.TrainingLog(file, "mlp") as log:
            log.parts(module, optimiser, depth=1)
        _, first, second = lines(file)
        assert first["part"] == "0" and first["parameters"] == 4 * 3 + 3 + 3 + 3
        assert first["bytes"]["parameters"] == first["bytes"]["gradients"] == 4 * 21
        assert first["bytes"]["buffers"] == 4 * 6 + 8
        assert second["bytes"] == {"parameters": 32, "gradients": 32, "optimiser": 32}

    def test_a_landscape_leaves_parameters_as_they_were(self, torch, file):
        torch.manual_seed(0)
        weight = torch.nn.Parameter(torch.randn(3, 4))
        before = weight.detach().clone()
        with lfarm.TrainingLog(file, "quadratic") as log:
            log.landscape("loss", lambda: (weight - before).square().sum(), [weight], radius=0.5)
        assert torch.equal(weight, before)
        _, line = lines(file)
        assert len(line["at_x"]) == len(line["at_y"]) == len(line["values"]) == 11
        assert line["at_x"][0] == -0.5 and line["at_x"][-1] == 0.5
        assert line["values"][5][5] == 0
        # A step moves each row by as much as it is long, along either direction.
        length = before.square().sum().item()
        assert line["values"][5][10] == pytest.approx(0.25 * length, rel=1e-4)
        assert line["values"][0][5] == pytest.approx(0.25 * length, rel=1e-4)

    def test_a_landscape_that_fails_leaves_them_as_well(self, torch, file):
        weight = torch.nn.Parameter(torch.ones(3))

        def fails():
            raise RuntimeError("no loss")

        with lfarm.TrainingLog(file, "broken") as log, pytest.raises(RuntimeError):
            log.landscape("loss", fails, [weight])
        assert torch.equal(weight, torch.ones(3))
