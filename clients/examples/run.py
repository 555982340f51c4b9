"""Runs a model once on ones: run.py MODEL.pt2 SIZE... (one float32 input of these sizes)."""

import sys

import lfarm
import numpy

if len(sys.argv) < 2:
    sys.exit("usage: run MODEL.pt2 SIZE...")
shape = [int(size) for size in sys.argv[2:]]
try:
    model = lfarm.load(sys.argv[1])
    outputs = model(numpy.ones(shape, numpy.float32))
except lfarm.Error as error:
    sys.exit(f"run: {error}")
output = outputs[0] if isinstance(outputs, tuple) else outputs
print(f"output 0: rank {output.ndim}, first element {output.flat[0]:g}")
