"""Trains a Fourier transform by lfarm's plans and says how its variants do: train.py [--n 256].

Needs a farm (`lfarm up`) and torch. Every gate is printed as passed or failed; any that failed makes the
exit status 1.
"""

import argparse
import contextlib
import math
import sys
import time

import torch

import gates
import signals
from lfarm import compile as lfarm_compile
from pipelines import Objective, Pipelines, reference
from recording import Recording, parts_of, twiddle_error

if "lfarm" not in torch._dynamo.list_backends():  # else the installed package's entry point did it
    torch._dynamo.register_backend(lfarm_compile.backend, name="lfarm")


class Trainer:
    """The loss, its derivatives and Adam's step, each a graph that a plan runs."""

    def __init__(self, pipelines, bands, options):
        self.bands = bands
        self.rate = torch.tensor(0.0)  # a tensor: another rate is no other graph
        self.optimiser = torch.optim.Adam(pipelines.parameters(), lr=self.rate)
        self.objective = torch.compile(Objective(pipelines), backend="lfarm", options=options)
        self.step_optimiser = torch.compile(self.optimiser.step, backend="lfarm", options=options)

    def step(self, frames, segments, rate):
        self.rate.fill_(rate)
        self.optimiser.zero_grad()
        loss = self.objective(frames, segments, reference(frames, segments, self.bands))
        loss.backward()
        self.step_optimiser()
        return loss.item()


def train(trainer, n, steps, count, recording, rate=6e-3):
    """Steps on new signals, at a rate that falls along a cosine; the losses."""
    losses = []
    for step in range(steps):
        now = rate * 0.5 * (1 + math.cos(math.pi * step / steps)) + 1e-5
        frames, segments = signals.batch(count, n)
        losses.append(trainer.step(frames, segments, now))
        recording.step(step, losses[-1], frames, segments)
        if step % 50 == 0 or step == steps - 1:
            print(f"  step {step:4}: loss {losses[-1]:.3e}", flush=True)
    return losses


def launches(trainer, n, count):
    """How many kernels each plan launches in one training step."""
    with contextlib.ExitStack() as stack:
        profiles = [stack.enter_context(one.profile()) for one in lfarm_compile.instances()]
        trainer.step(*signals.batch(count, n), 1e-6)
    calls = [call for profile in profiles for call in profile.calls]
    # What needs no input was computed when the plan was loaded, and takes no time.
    return [sum(kernel.time_ns > 0 for kernel in call.kernels) for call in calls]


def furthest(pipelines):
    """The worst angle of both transforms."""
    return max(twiddle_error(part) for part in parts_of(pipelines).values())


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=256, help="samples of a frame, a power of two")
    parser.add_argument("--bands", type=int, default=40, help="of the mel spectrum")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--off", type=float, default=0.05, help="radians that angles begin away")
    parser.add_argument("--budget", type=int, default=8, help="candidates of each search")
    parser.add_argument("--threads", type=int, default=0, help="of a call; 0: all")
    parser.add_argument("--record", metavar="FILE", help="adds logs for `lfarm report import`")
    parser.add_argument(
        "--landscape", action="store_true", help="records the loss around the trained angles as well"
    )
    given = parser.parse_args()
    if given.n < 8 or given.n & (given.n - 1):
        parser.error(f"--n {given.n}: a power of two of at least 8 is needed")
    return given


def main():
    given = arguments()
    torch.manual_seed(0)
    torch.set_num_threads(given.threads or torch.get_num_threads())
    n = given.n
    options = {"deadline": 600, "budget_candidates": given.budget, "threads": given.threads}
    pipelines = Pipelines(n, given.bands)
    count = sum(parameter.numel() for parameter in pipelines.parameters())
    print(f"{count:,} parameters, {4 * count:,} bytes")
    results = gates.Results()
    gates.exactness(results, pipelines.analysis)

    with torch.no_grad():
        for part in (pipelines.analysis, pipelines.synthesis):
            part.angles.add_(given.off * (2 * torch.rand_like(part.angles) - 1))
    before = furthest(pipelines)
    trainer = Trainer(pipelines, given.bands, options)
    recording = Recording(given.record, pipelines, given.bands)
    start = time.perf_counter()
    losses = train(trainer, n, given.steps, given.batch, recording)
    recording.end(given.steps, trainer.optimiser, given.landscape)
    after = furthest(pipelines)
    print(f"  {given.steps} steps in {time.perf_counter() - start:.0f} s, searches included")
    print(f"  launches of a step, plan by plan: {launches(trainer, n, given.batch)}")
    results.add("twiddles come back", f"worst angle off by {before:.3f}, then", after, before / 4)
    results.add("loss falls", f"from {losses[0]:.2e} to", losses[-1], losses[0] / 10)
    made = gates.variants(results, pipelines, given.bands, options)
    recording.variants(made)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
