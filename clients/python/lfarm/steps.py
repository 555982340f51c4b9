"""Training steps as programs: parameters and the optimiser's state live in an instance, not in torch.

>>> program = torch.export.export(module_that_returns_a_loss, (x, y))
>>> step = lfarm.train_step(program, lfarm.AdamW(rate=1e-3))
>>> for x, y in batches:
...     loss = step(x, y)
>>> module.load_state_dict(step.parameters(), strict=False)
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from typing import Any, Mapping, Optional, Protocol, Union

from lfarm import tensors
from lfarm.model import Instance, Path, _shared_session


class Update(Protocol):
    """How a parameter changes. `rate` is the learning rate, which every call may give anew."""

    rate: float
    # What is kept for each parameter, of its shape and zero at first. An update that keeps something
    # else has a method kept_for(parameter), which gives the tensors that it begins with by name.
    kept: tuple[str, ...]

    def __call__(self, parameter: Any, gradient: Any, kept: list[Any], step: Any, rate: Any) -> None:
        """Writes the parameter and what is kept for it. `step` counts from 1; all are tensors."""


@dataclasses.dataclass(frozen=True)
class Sgd:
    """torch.optim.SGD."""

    rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0

    @property
    def kept(self) -> tuple[str, ...]:
        """The momentum, where there is one."""
        return ("momentum",) if self.momentum else ()

    def __call__(self, parameter: Any, gradient: Any, kept: list[Any], step: Any, rate: Any) -> None:
        change = gradient + self.weight_decay * parameter
        if self.momentum:
            change = self.momentum * kept[0] + change
            kept[0].copy_(change)
        parameter.copy_(parameter - rate * change)


@dataclasses.dataclass(frozen=True)
class AdamW:
    """torch.optim.AdamW."""

    rate: float
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 1e-2
    kept: tuple[str, ...] = ("mean", "square")

    def __call__(self, parameter: Any, gradient: Any, kept: list[Any], step: Any, rate: Any) -> None:
        mean = self.betas[0] * kept[0] + (1 - self.betas[0]) * gradient
        square = self.betas[1] * kept[1] + (1 - self.betas[1]) * gradient * gradient
        corrected = (square / (1 - self.betas[1] ** step)).sqrt() + self.epsilon
        change = mean / (1 - self.betas[0] ** step) / corrected
        kept[0].copy_(mean)
        kept[1].copy_(square)
        parameter.copy_(parameter * (1 - rate * self.weight_decay) - rate * change)


@dataclasses.dataclass(frozen=True)
class RMSprop:
    """torch.optim.RMSprop."""

    rate: float
    alpha: float = 0.99
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False

    @property
    def kept(self) -> tuple[str, ...]:
        """The squares' mean, the gradients' where the squares are centred, and the momentum."""
        mean, momentum = ("mean",) * self.centered, ("momentum",) * bool(self.momentum)
        return ("square", *mean, *momentum)

    def __call__(self, parameter: Any, gradient: Any, kept: list[Any], step: Any, rate: Any) -> None:
        named = dict(zip(self.kept, kept))
        gradient = gradient + self.weight_decay * parameter
        square = self.alpha * named["square"] + (1 - self.alpha) * gradient * gradient
        named["square"].copy_(square)
        if self.centered:
            mean = named["mean"] + (1 - self.alpha) * (gradient - named["mean"])
            named["mean"].copy_(mean)
            square = square - mean * mean
        change = gradient / (square.sqrt() + self.epsilon)
        if self.momentum:
            change = self.momentum * named["momentum"] + change
            named["momentum"].copy_(change)
        parameter.copy_(parameter - rate * change)


@dataclasses.dataclass(frozen=True)
class Adagrad:
    """torch.optim.Adagrad."""

    rate: float
    rate_decay: float = 0.0
    weight_decay: float = 0.0
    epsilon: float = 1e-10
    kept: tuple[str, ...] = ("square",)

    def __call__(self, parameter: Any, gradient: Any, kept: list[Any], step: Any, rate: Any) -> None:
        gradient = gradient + self.weight_decay * parameter
        square = kept[0] + gradient * gradient
        kept[0].copy_(square)
        if self.rate_decay:
            rate = rate / (1 + (step - 1) * self.rate_decay)
        parameter.copy_(parameter - rate * gradient / (square.sqrt() + self.epsilon))


@dataclasses.dataclass(frozen=True)
class Adafactor:
    """torch.optim.Adafactor: of a matrix's squared gradients the means of rows and columns are kept."""

    rate: float = 1e-2
    rate_decay: float = -0.8  # torch's beta2_decay
    epsilons: tuple[Optional[float], float] = (None, 1e-3)  # None: the parameter's type says
    threshold: float = 1.0  # torch's d
    weight_decay: float = 0.0
    kept: tuple[str, ...] = ("rows", "columns", "square")

    def kept_for(self, parameter: Any) -> dict[str, Any]:
        """Means of rows and columns, or of all squares where there is one axis."""
        if parameter.dim() < 2:
            return {"square": parameter.new_zeros(parameter.shape)}
        return {
            "rows": parameter.new_zeros((*parameter.shape[:-1], 1)),
            "columns": parameter.new_zeros((*parameter.shape[:-2], 1, parameter.shape[-1])),
        }

    def __call__(self, parameter: Any, gradient: Any, kept: list[Any], step: Any, rate: Any) -> None:
        import torch

        first = self.epsilons[0]
        least = torch.finfo(parameter.dtype).eps if first is None else first
        fresh, root = step**self.rate_decay, parameter.numel() ** 0.5
        size = (parameter.norm() / root).clamp(min=self.epsilons[1])
        size = size * torch.minimum(rate, step**-0.5)
        square = gradient * gradient
        means = [square] if len(kept) == 1 else [square.mean(axis, keepdim=True) for axis in (-1, -2)]
        means = [torch.lerp(old, new, fresh) for old, new in zip(kept, means)]
        for old, new in zip(kept, means):
            old.copy_(new)
        estimate = means[0]
        if len(means) == 2:
            estimate = means[0] * means[1] / means[0].mean(-2, keepdim=True).clamp(min=least)
        change = estimate.clamp(min=least * least).rsqrt() * gradient
        change = change / (change.norm() / (root * self.threshold)).clamp(min=1)
        parameter.copy_(parameter * (1 - rate * self.weight_decay) - size * change)


class TrainStep:
    """A step that is called with a batch and returns the loss. Made by train_step()."""

    def __init__(self, instance: Instance, states: Mapping[str, str], rate: Optional[float]) -> None:
        self.instance = instance
        self._states = dict(states)  # names in the instance, by those that users know
        self._rate = rate

    def __call__(self, *batch: Any, rate: Optional[float] = None) -> Any:
        """The loss of the batch before the parameters change, or whatever the program returns.
        `rate`: another learning rate for this step, where lfarm wrote the step."""
        if self._rate is None:
            if rate is not None:
                raise TypeError("this step has a learning rate of its own, which rate= cannot change")
            return self.instance(*batch)
        import torch  # type: ignore[import,unused-ignore]

        return self.instance(*batch, torch.tensor(self._rate if rate is None else rate))

    def state_dict(self) -> dict[str, Any]:
        """Copies of all states as torch tensors: parameters and buffers by their names, and what the
        update keeps, such as "momentum.head.weight"."""
        return {
            name: tensors.to_torch(self.instance.state(inner))
            for name, inner in self._states.items()
        }

    def parameters(self) -> dict[str, Any]:
        """The part of state_dict() that the module itself has: what the step trains or else writes."""
        return {
            name: tensors.to_torch(self.instance.state(inner))
            for name, inner in self._states.items()
            if not inner.startswith(KEPT)
        }

    def load_state_dict(self, states: Mapping[str, Any]) -> None:
        """Goes on from such states. Raises KeyError for a name that the step does not have."""
        unknown = [name for name in states if name not in self._states]
        if unknown:
            raise KeyError(f"the step has no state {unknown[0]!r}: {', '.join(self._states)}")
        for name, content in states.items():
            self.instance.set_state(self._states[name], content)


# How the names of what an update keeps begin in the program.
KEPT = "kept_"


def train_step(
    program: Union[Path, Any], update: Optional[Update] = None, **options: Any
) -> TrainStep:
    """The step of a program of torch.export, or of the file of one.

    Without `update` the program is a step as it is, which writes its parameters itself. With an update,
    such as lfarm.AdamW, it is a program that returns a loss, or a joint one that returns gradients as
    well, and lfarm writes the rest of the step. `options` are lfarm.Session's. Raises ValueError for a
    program that is neither.
    """
    import torch

    from lfarm import written_step

    if isinstance(program, (str, os.PathLike)):
        program = torch.export.load(program)
    rate = None if update is None else update.rate
    if update is not None:
        program, states = written_step.written(program, update)
    else:
        states = written_step.states_of(program)
    handle, path = tempfile.mkstemp(suffix=".pt2")
    os.close(handle)
    try:
        torch.export.save(program, path)
        instance = _shared_session(options).load(path).instance()
    finally:
        os.unlink(path)  # the library keeps it mapped
    return TrainStep(instance, states, rate)
