"""What LFARM_LOGS shows of a program that uses lfarm: if these fail, a user who looks for a reason sees
nothing, or too much to find it."""

import logging
import os
import subprocess
import sys

import pytest

from lfarm.logs import level_of

SCRIPT = """
import sys, lfarm, numpy
model = lfarm.load(sys.argv[1], deadline=0)
model(numpy.zeros((3, 16), numpy.float32))
"""


def errors_of(logs, model, state):
    environment = {**os.environ, "LFARM_LOGS": logs, "LFARM_STATE": str(state)}
    if "LFARM_PRELOAD" in environment:
        environment["LD_PRELOAD"] = environment["LFARM_PRELOAD"]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(model)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize(
    "text, level",
    [
        ("dynamo", logging.INFO),
        ("+session, +dynamo,-farm", logging.DEBUG),
        ("all,-dynamo", logging.ERROR),
        ("+all", logging.DEBUG),
        ("farm", None),
        ("", None),
    ],
)
def test_levels_are_those_of_torch_logs(text, level):
    assert level_of(text, "dynamo") == level


def test_components_are_chosen(fixture, tmp_path):
    model = fixture("mlp") / "model.pt2"
    warning = errors_of("", model, tmp_path)
    assert warning.count("\n") == 1
    assert "warning a graph runs without a plan for now: no farm runs on" in warning
    assert "the farm is asked for a plan" in errors_of("session", model, tmp_path)
    assert errors_of("-session,worker", model, tmp_path) == ""


def test_unknown_components_are_answered_with_the_known(fixture, tmp_path):
    said = errors_of("sesion", fixture("mlp") / "model.pt2", tmp_path)
    assert said.count("no component") == 1
    assert "no component is called 'sesion'; known are all, dynamo, farm, session" in said
