"""The package on NumPy arrays: if these fail, Python programs get wrong answers."""

import gc
import json
import os
import subprocess
import sys
import time

import lfarm
import pytest

numpy = pytest.importorskip("numpy")

BUDGET = {"budget_candidates": 3, "threads": 1}
PLAN_S = 600  # of a search on a busy machine


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
    plan = first.wait(PLAN_S)
    assert plan.graph_hash == model.graph_hash
    assert plan.best_ns > 0 and plan.target.startswith("cpu-")
    second = model.instance()
    assert second.plan == plan
    check(fixture(name), second)


def test_states_are_read_and_written(fixture):
    model = lfarm.Session(deadline=0, **BUDGET).load(fixture("kv_step") / "model.pt2")
    first, second = model.instance(), model.instance()
    x = numpy.ones((1, 1, 32), numpy.float32)
    first(x, numpy.array([0]))
    for name in ("k", "v"):
        content = numpy.asarray(first.state(name))
        assert content.shape == (1, 4, 16, 8) and content.any()
        second.set_state(name, content)
    numpy.testing.assert_allclose(second(x, numpy.array([1])), first(x, numpy.array([1])))
    with pytest.raises(lfarm.Error, match='"o.bias" is a weight, which no call changes'):
        first.state("o.bias")


@pytest.mark.parametrize("has_plan", [False, True])
def test_an_index_that_pytorch_refuses_raises(fixture, farm, has_plan):
    instance = lfarm.load(fixture("llama") / "model.pt2", deadline=0, **BUDGET)
    if has_plan:
        instance.wait(PLAN_S)
    (ids,) = arrays(fixture("llama") / "inputs")
    wrong = ids.copy()
    wrong[0, 7] = 99999
    message = r"input 0 \('.*'\): index 99999 at position 7 is outside of \[0, 256\)"
    with pytest.raises(IndexError, match=message) as failure:
        instance(wrong)
    assert isinstance(failure.value, lfarm.Error) and failure.value.status == 7
    instance(ids)


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


# Ends the module as the interpreter does at the end: arrays of the program may go later.
_HOLDS_TO_THE_END = """
import gc, sys, weakref
import lfarm, numpy
model = lfarm.load(sys.argv[1], deadline=0)
(output,) = model.call_flat([numpy.ones((3, 16), numpy.float32)])
taken, offered, memory = numpy.from_dlpack(output), output.__dlpack__(), weakref.ref(output._outputs)
names = vars(lfarm.tensors)
for name in names:
    names[name] = None
del output, names
gc.collect()
assert numpy.isfinite(taken).all()
del taken, offered
assert memory() is None
"""


def test_outputs_outlive_the_package_at_the_end_of_a_program(fixture):
    command = [sys.executable, "-c", _HOLDS_TO_THE_END, str(fixture("mlp") / "model.pt2")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


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


def test_a_profile_names_every_kernel(fixture, farm, tmp_path):
    instance = lfarm.load(fixture("mlp") / "model.pt2", **BUDGET)
    instance.wait(PLAN_S)
    (x,) = arrays(fixture("mlp") / "inputs")
    plain = instance(x)
    with instance.profile() as profile:
        for _ in range(3):
            numpy.testing.assert_array_equal(instance(x), plain)
    instance(x)
    assert len(profile.calls) == 3
    kernels = profile.calls[0].kernels
    assert kernels and all(len(kernel.id) == 64 and kernel.bytes > 0 for kernel in kernels)
    for call in profile.calls:
        assert 0 < sum(kernel.time_ns for kernel in call.kernels) <= call.wall_ns
    times = [kernel.time_ns for kernel, _ in profile.totals()]
    assert times == sorted(times, reverse=True)
    assert sum(count for _, count in profile.totals()) == 3 * len(kernels)
    profile.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert len(events) == 3 * (1 + len(kernels))
    for event in events:
        assert event["ph"] == "X" and event["dur"] >= 0
    modules = {event["args"].get("modules") for event in events if event["tid"] == 1}
    assert any(name and name.split(", ")[0] in ("a", "b", "scale") for name in modules), modules
    assert any(":" in event["args"].get("sources", "") for event in events), "lines of the model"


def test_the_interpreter_has_no_kernels(fixture, tmp_path):
    session = lfarm.Session(state=tmp_path, deadline=0)
    instance = session.load(fixture("kv_step") / "model.pt2").instance()
    with instance.profile() as profile:
        check(fixture("kv_step"), instance)
    assert profile.calls and not any(call.kernels for call in profile.calls)


def test_sizes_have_plans_of_their_own(fixture, farm):
    whole = lfarm.load(fixture("mlp_dynamic") / "model.pt2", **BUDGET)
    parts = lfarm.load(fixture("mlp_dynamic") / "model.pt2", sizes="s0=1;s0=2..64", **BUDGET)
    parts.wait(PLAN_S)
    plans = set()
    for rows in (1, 7):
        x = numpy.full((rows, 16), 0.25, numpy.float32)
        numpy.testing.assert_allclose(parts(x), whole(x), rtol=1e-4, atol=1e-5)
        plans.add(parts.plan.id)
    assert len(plans) == 2
    with pytest.raises(lfarm.Error, match="no range of sizes"):
        lfarm.Session(sizes="rows=1")


def test_a_model_is_found_by_its_hash(fixture, farm):
    session = lfarm.Session(deadline=600, **BUDGET)
    known = session.load(fixture("mlp") / "model.pt2")
    instance = known.instance()
    found = session.find(known.graph_hash)
    with pytest.raises(lfarm.Error, match="has no content"):
        found.instance()
    found.bind_file(fixture("mlp") / "model.pt2")
    (x,) = arrays(fixture("mlp") / "inputs")
    numpy.testing.assert_array_equal(found.instance()(x), instance(x))
    found.bind({"3": numpy.zeros(4, numpy.float32)})
    assert not numpy.array_equal(found.instance()(x), instance(x))


def test_outputs_go_into_given_arrays(fixture):
    instance = lfarm.load(fixture("mlp") / "model.pt2", deadline=0)
    given, (right,) = arrays(fixture("mlp") / "inputs"), arrays(fixture("mlp") / "outputs")
    room = numpy.zeros(right.nbytes + 64, numpy.uint8)
    start = -room.ctypes.data % 64
    mine = room[start : start + right.nbytes].view(right.dtype).reshape(right.shape)
    instance.call_flat(given, outputs=[mine])
    numpy.testing.assert_allclose(mine, right, rtol=1e-4, atol=1e-5)


def test_searches_end_with_their_session_unless_they_are_kept(farm, fixture):
    command = os.path.join(os.environ["LFARM_BIN"], "lfarm")

    def jobs():
        told = subprocess.run([command, "jobs", "--json"], check=True, capture_output=True)
        return json.loads(told.stdout)["jobs"]

    def until(condition):
        end = time.monotonic() + 600
        while not condition():
            assert time.monotonic() < end, jobs()
            time.sleep(0.1)

    for keep in (False, True):
        session = lfarm.Session(deadline=0, budget_seconds=1000, keep_searches=keep)
        instance = session.load(fixture("kv_step") / "model.pt2").instance()
        until(jobs)
        del instance, session
        gc.collect()
        if keep:
            time.sleep(1)  # what a cancellation would take, and more
            assert jobs()
            subprocess.run([command, "cancel", "--all"], check=True)
        until(lambda: not jobs())
