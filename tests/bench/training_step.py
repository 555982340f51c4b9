"""Times one training step with eager, Inductor and lfarm: training_step.py [mlp|gpt2|resnet18] ...

Needs torch, a farm (`lfarm up`) and the package lfarm. All run in one process, in turns of some steps each,
and the ratios of their medians are printed. Where lfarm's time goes is printed by parts: forward plan,
backward plan, and what lies beside the kernels. With --memory each runs in a process of its own, and what
memory it has at most during steps beyond what it had before there was a model is printed, too.
"""

import argparse
import contextlib
import copy
import gc
import pathlib
import statistics
import subprocess
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

from lfarm import compile as lfarm_compile
from lfarm import graphs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import training_models  # noqa: E402: lies beside the tests

if "lfarm" not in torch._dynamo.list_backends():
    torch._dynamo.register_backend(lfarm_compile.backend, name="lfarm")


def mlp():
    layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
    return nn.Sequential(*layers), (torch.randn(64, 784), torch.randint(10, (64,)))


def with_batch(model):
    return model, model.batch()


MODELS = {
    "mlp": mlp,
    "gpt2_small": lambda: with_batch(training_models.Gpt2(512, 64, 4, 2, 32, 4, 0.0)),
    "gpt2": lambda: with_batch(training_models.Gpt2(8192, 256, 4, 4, 128, 4, 0.0)),
    "gpt2_dropout": lambda: with_batch(training_models.Gpt2(8192, 256, 4, 4, 128, 4, 0.1)),
    "vit": lambda: with_batch(training_models.Vit(64, 8, 192, 3, 4, 10, 8)),
    "resnet18": lambda: with_batch(training_models.ResNet18(64, 100, 8)),
    "unet": lambda: with_batch(training_models.UNet(64, 4, 2, 16)),
}


def stepper(model, batch, backend, options):
    """A function that does one step and returns the loss."""
    x, y = batch
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    named = {} if backend != "lfarm" else {"options": options}
    forward = model if backend == "eager" else torch.compile(model, backend=backend, **named)

    def step():
        optimiser.zero_grad()
        loss = F.cross_entropy(forward(x), y)
        loss.backward()
        optimiser.step()
        return loss.item()

    return step


def parts(step, rounds):
    """What lfarm's plans took in the quickest of some steps, in microseconds: the call and its kernels."""
    with contextlib.ExitStack() as stack:
        profiles = [stack.enter_context(one.profile()) for one in lfarm_compile.instances()]
        for _ in range(rounds):
            step()
    calls = [min(one.calls, key=lambda call: call.wall_ns) for one in profiles if one.calls]
    for call in sorted(calls, key=lambda call: call.start_ns):
        kernels = sorted(call.kernels, key=lambda kernel: -kernel.time_ns)
        busy = sum(kernel.time_ns for kernel in kernels)
        slowest = ", ".join(f"{k.name} {k.time_ns / 1e3:.0f}" for k in kernels[:3])
        print(
            f"  plan of {len(kernels)} kernels: {call.wall_ns / 1e3:.0f} us,"
            f" kernels {busy / 1e3:.0f} us, slowest {slowest}"
        )


def measure(name, rounds, options):
    torch.manual_seed(0)
    model, batch = MODELS[name]()
    steps = {}
    torch._dynamo.reset()
    for backend in ("eager", "inductor", "lfarm"):
        steps[backend] = stepper(copy.deepcopy(model), batch, backend, options)
        for _ in range(5):
            steps[backend]()
    times = {backend: [] for backend in steps}
    for _ in range(rounds):
        for backend, step in steps.items():
            step()
            start = time.perf_counter()
            for _ in range(5):
                step()
            times[backend].append((time.perf_counter() - start) / 5e-6)
    medians = {backend: statistics.median(found) for backend, found in times.items()}
    print(name, ", ".join(f"{backend} {value:.0f} us" for backend, value in medians.items()))
    for backend in ("eager", "inductor"):
        print(f"  lfarm / {backend}: {medians['lfarm'] / medians[backend]:.2f}")
    quickest = {backend: min(found) for backend, found in times.items()}
    print("  quickest:", ", ".join(f"{name} {value:.0f} us" for name, value in quickest.items()))
    parts(steps["lfarm"], rounds)


def status_kib(field):
    """A figure of this process in /proc, in KiB."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {field}")


def print_peak(name, backend, options):
    """Prints the most memory that steps take beyond that of a process without a model, in MB, and how much of
    it stays when the model goes: torch's modules for compiling, which eager doesn't load."""
    before = status_kib("VmRSS")
    torch.manual_seed(0)
    model, batch = MODELS[name]()
    step = stepper(model, batch, backend, options)
    for _ in range(5):
        step()
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    for _ in range(5):
        step()
    peak = status_kib("VmHWM") - before
    del model, batch, step
    torch._dynamo.reset()
    gc.collect()
    graphs.release_freed()
    left = status_kib("VmRSS") - before
    print(f"  {backend}: peak {peak / 1e3:.0f} MB, without the model {left / 1e3:.0f} MB")


def compare_peaks(name, given):
    for backend in ("eager", "inductor", "lfarm"):
        words = [sys.executable, "-B", __file__, name, "--peak-of", backend]
        words += ["--budget", str(given.budget), "--threads", str(given.threads)]
        subprocess.run(words, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", type=int, default=64, help="candidates of each search")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory", action="store_true", help="compares peaks of memory, too")
    parser.add_argument("--peak-of", metavar="BACKEND", help="prints the peak of this backend alone")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for name in given.models:
        if name not in MODELS:
            parser.error(f"no model {name!r}: {', '.join(MODELS)}")
        options = {
            "deadline": 1200,
            "budget_candidates": given.budget,
            "threads": given.threads,
        }
        if given.peak_of:
            print_peak(name, given.peak_of, options)
            continue
        measure(name, given.rounds, options)
        if given.memory:
            compare_peaks(name, given)


if __name__ == "__main__":
    main()
