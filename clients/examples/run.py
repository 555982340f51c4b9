"""Runs a model on ones: run.py MODEL.pt2 SIZE... (one float32 input of these sizes)."""

import sys

import lfarm
import numpy

model = lfarm.load(sys.argv[1])
output = model(numpy.ones([int(size) for size in sys.argv[2:]], numpy.float32))
print("output 0: rank", output.ndim, "first element", output.flat[0])
print("plan:", model.plan or "not yet, the interpreter computed it")
