#!/usr/bin/env python3
"""torch_peers.py [--device cuda|cpu] [--runs N] [--sequence N] MODEL.pt2...: what PyTorch itself
takes for exported models, eagerly and by torch.compile, one JSON object a line.

Weights and inputs are random, as the archives of full-size graphs hold none. Times are medians of
the device's own events, with caches flushed before each run, as lfarm measures plans. Exits 3
where PyTorch or the device is missing."""

import argparse
import json
import os
import statistics
import sys
import time

try:
    import torch
    from torch.export.passes import move_to_device_pass
except ImportError as error:
    print(f"torch_peers: no PyTorch: {error}", file=sys.stderr)
    sys.exit(3)

FLUSHED_CACHES = 2  # of the size of the second-level cache


def random_like(value, device):
    """Memory of its own for a tensor that may be a view of one element, or on no device at all."""
    if not value.is_floating_point():
        # Numbers that the model was exported with are data; those of no device are lost.
        return torch.zeros(value.shape, dtype=value.dtype, device=device) if value.is_meta else value.to(device)
    return torch.empty(value.shape, dtype=value.dtype, device=device).normal_(0, 0.02)


def load(path, device):
    """The exported program on the device, with random weights."""
    program = torch.export.load(path)
    for tensors in (program._state_dict, program._constants):
        for name, value in tensors.items():
            if not isinstance(value, torch.Tensor):
                continue
            fresh = random_like(value.detach(), device)
            is_parameter = isinstance(value, torch.nn.Parameter)
            tensors[name] = torch.nn.Parameter(fresh, requires_grad=False) if is_parameter else fresh
    return move_to_device_pass(program, device)


def random_inputs(program, device, sequence):
    """One tensor for each of the user's inputs; symbolic sizes become `sequence`."""
    names = set(program.graph_signature.user_inputs)
    inputs = []
    for node in program.graph.nodes:
        if node.op != "placeholder" or node.name not in names:
            continue
        example = node.meta["val"]
        shape = [size if isinstance(size, int) else sequence for size in example.shape]
        if example.is_floating_point():
            inputs.append(torch.randn(shape, dtype=example.dtype, device=device))
        else:
            # Small, so that they are tokens and positions alike.
            inputs.append(torch.zeros(shape, dtype=example.dtype, device=device))
    return inputs


def median_us(call, device, runs):
    """Of `runs` calls with cold caches, after three that nobody counts."""
    for _ in range(3):
        call()
    times = []
    if device != "cuda":
        for _ in range(runs):
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e6)
        return statistics.median(times)
    cache = torch.cuda.get_device_properties(0).L2_cache_size * FLUSHED_CACHES
    flushed = torch.empty(cache, dtype=torch.uint8, device=device)
    for _ in range(runs):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flushed.zero_()
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


def measure(path, options):
    """The line of one model; a way that fails says why in place of its time."""
    line = {"model": os.path.basename(path), "torch": torch.__version__, "sequence": options.sequence}
    program = load(path, options.device)
    module = program.module()
    inputs = random_inputs(program, options.device, options.sequence)
    ways = {
        "eager": lambda: module,
        "compile": lambda: torch.compile(module),
        "compile_reduce_overhead": lambda: torch.compile(module, mode="reduce-overhead"),
        "compile_max_autotune": lambda: torch.compile(module, mode="max-autotune"),
    }
    for name, make in ways.items():
        if name not in options.ways.split(","):
            continue
        start = time.perf_counter()
        try:
            with torch.no_grad():
                call = make()
                call(*inputs)
                line[name + "_ready_s"] = round(time.perf_counter() - start, 2)
                line[name + "_us"] = round(median_us(lambda: call(*inputs), options.device, options.runs), 2)
        except Exception as error:  # whatever PyTorch raises is this way's result
            line[name + "_error"] = f"{type(error).__name__}: {error}".split("\n")[0][:200]
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--sequence", type=int, default=32,
                        help="for symbolic sizes; lfarm measures at 32")
    parser.add_argument("--ways", default="eager,compile_reduce_overhead,compile_max_autotune")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("torch_peers: this PyTorch sees no GPU", file=sys.stderr)
        sys.exit(3)
    failed = False
    for path in options.models:
        try:
            line = measure(path, options)
        except Exception as error:  # one model's trouble must not hide the others
            line = {"model": os.path.basename(path), "error": f"{type(error).__name__}: {error}".split("\n")[0][:200]}
            failed = True
        print(json.dumps(line), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
