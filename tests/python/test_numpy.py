"""The package on NumPy arrays: if these fail, Python programs get wrong answers."""

import json

import lfarm
import pytest

numpy = pytest.importorskip("numpy")

BUDGET = {"budget_candidates": 3, "threads": 1}


def arrays(folder):
    files = sorted(folder.glob("*.npy"), key=lambda file: int(file.stem))
    return [numpy.load(file) for file in files]


def check(case, instance):
    tolerance = json.loads((case / "meta.json").read_text())
    for part in [case, *sorted((case / "steps").glob("*"), key=lambda step: int(step.name))]:
        results = instance(*arrays(part / "inputs"))
        results = results if isinstance(results, tuple) else (results,)
        expected = arrays(part / "outputs")
        assert len(results) == len(expected)
        for result, right in zip(results, expected):
            assert isinstance(result, numpy.ndarray)
            numpy.testing.assert_allclose(
                result, right, rtol=tolerance.get("rtol", 1e-4), atol=tolerance.get("atol", 1e-5)
            )


@pytest.mark.parametrize("name", ["mlp", "mlp_dynamic", "kv_step"])
def test_answers_at_once_and_then_by_the_plan(fixture, farm, name):
    session = lfarm.Session(deadline=0, **BUDGET)
    model = session.load(fixture(name) / "model.pt2")
    first = model.instance()
    check(fixture(name), first)
    plan = first.wait(120)
    assert plan.graph_hash == model.graph_hash
    assert plan.best_ns > 0 and plan.target.startswith("cpu-")
    second = model.instance()
    assert second.plan == plan
    check(fixture(name), second)


def test_submit_gives_the_plan(fixture, farm):
    plan = lfarm.submit(fixture("mlp") / "model.pt2", **BUDGET)
    assert len(plan.id) == 64
    assert lfarm.load(fixture("mlp") / "model.pt2", **BUDGET).plan == plan


def test_arrays_may_have_gaps_and_outputs_outlive_the_model(fixture):
    instance = lfarm.load(fixture("mlp") / "model.pt2", deadline=0)
    (x,) = arrays(fixture("mlp") / "inputs")
    wide = numpy.zeros((x.shape[0], 2 * x.shape[1]), x.dtype)
    wide[:, ::2] = x
    plain, strided = instance(x), instance([wide[:, ::2]])
    del instance
    numpy.testing.assert_array_equal(plain, strided)


def test_outputs_speak_dlpack(fixture):
    instance = lfarm.load(fixture("mlp") / "model.pt2", deadline=0)
    (x,) = arrays(fixture("mlp") / "inputs")
    (output,) = instance.call_flat([x])
    taken = numpy.from_dlpack(output)
    del output
    numpy.testing.assert_array_equal(taken, instance(x))


def test_errors_say_what_does_not_fit(fixture, tmp_path):
    with pytest.raises(lfarm.Error, match="nowhere.pt2") as failure:
        lfarm.load(tmp_path / "nowhere.pt2")
    assert failure.value.status == 2
    instance = lfarm.load(fixture("mlp") / "model.pt2", deadline=0)
    with pytest.raises(lfarm.Error, match=r"f32\[3, 16\]"):
        instance(numpy.zeros((3, 15), numpy.float32))
    with pytest.raises(lfarm.Error, match="takes 1 tensors, not 0"):
        instance()
    with pytest.raises(TypeError, match="U3"):
        instance(numpy.array(["abc"]))
    with pytest.raises(lfarm.Error, match="no farm answers"):
        lfarm.submit(fixture("mlp") / "model.pt2", farm="tcp://127.0.0.1:1", timeout=60)
    with pytest.raises(lfarm.Error, match="tpu"):
        lfarm.Session(device="tpu")
