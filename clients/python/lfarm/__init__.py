"""Runs PyTorch models with kernel plans that a farm found.

>>> import lfarm
>>> model = lfarm.load("model.pt2")
>>> y = model(x)          # NumPy arrays, torch tensors, anything that speaks DLPack

A model that no farm has seen yet is computed by a slow interpreter at first; the farm searches
meanwhile, and calls change over to its plan once it is there.
"""

from lfarm._native import Error
from lfarm.explanation import Explanation, GraphExplanation, explain
from lfarm.generation import generate, generator
from lfarm.model import Instance, Model, Plan, Session, load, submit
from lfarm.profile import Call, Kernel, Profile
from lfarm.runlog import TrainingLog, ValidationLog
from lfarm.steps import Adafactor, Adagrad, AdamW, RMSprop, Sgd, TrainStep, train_step

__version__ = "0.1.0"

__all__ = [
    "Adafactor",
    "Adagrad",
    "AdamW",
    "Call",
    "Error",
    "Explanation",
    "GraphExplanation",
    "Instance",
    "Kernel",
    "Model",
    "Plan",
    "Profile",
    "RMSprop",
    "Session",
    "Sgd",
    "TrainStep",
    "TrainingLog",
    "ValidationLog",
    "explain",
    "generate",
    "generator",
    "load",
    "submit",
    "train_step",
]
