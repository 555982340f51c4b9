"""torch.compile(model, backend="lfarm"): graphs that Dynamo captures, run by plans of a farm.

Parameters and buffers that nothing mutates become weights of the plan, which are prepared once. What
a graph mutates, such as a static cache, stays torch's own memory and is written there. Graphs that
lfarm does not know, and calls that need gradients, are left to torch, with a warning that says why.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from typing import Any, Callable, Optional

import torch
from torch.fx import GraphModule

from lfarm._native import Error
from lfarm.model import Instance, _shared_session


class _Unsuited(Exception):
    """Why a graph is left to torch."""


class _Wrapped(torch.nn.Module):
    """The graph as a function of its changing tensors; sizes are read off them again."""

    def __init__(
        self, graph: GraphModule, sources: list[Any], fixed: dict[int, torch.Tensor]
    ) -> None:
        super().__init__()
        self.graph = graph
        self._sources = sources
        for position, tensor in fixed.items():
            self.register_buffer(f"fixed_{position}", tensor.detach())

    def forward(self, *given: torch.Tensor) -> Any:
        values: list[Any] = []
        for kind, what in self._sources:
            if kind == "given":
                values.append(given[what])
            elif kind == "fixed":
                values.append(getattr(self, f"fixed_{what}"))
            elif kind == "size":
                values.append(given[what[0]].shape[what[1]])
            else:
                values.append(what)
        return self.graph(*values)


def _placeholders(graph: GraphModule) -> list[Any]:
    """The examples that Dynamo traced with, whose sizes are symbols where they may change."""
    nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
    return [node.meta.get("example_value") for node in nodes]


def _is_fixed(example: Any) -> bool:
    static = getattr(example, "_dynamo_static_input_type", None) is not None
    return static or isinstance(example, torch.nn.Parameter)


def _symbol(value: Any) -> Optional[str]:
    """The expression of a size that may change; None for a number."""
    if not isinstance(value, torch.SymInt):
        return None
    text = str(value.node.expr)
    return None if text.lstrip("-").isdigit() else text


class _Program:
    """A graph, exported: which of its inputs are given at a call, and how to save it."""

    def __init__(self, graph: GraphModule, inputs: list[Any], mutated: set[int]) -> None:
        self.given: list[int] = []
        self._graph = graph
        self._inputs = inputs
        examples = _placeholders(graph)
        fixed: dict[int, torch.Tensor] = {}
        for position, value in enumerate(inputs):
            if not isinstance(value, torch.Tensor):
                continue
            if value.device.type != "cpu":
                raise _Unsuited(f"input {position} is on {value.device}")
            if _is_fixed(value) and position not in mutated:
                fixed[position] = value
            else:
                self.given.append(position)
        self.fixed = fixed
        self._examples = examples
        self._sources = [self._source(position) for position in range(len(inputs))]

    def _source(self, position: int) -> tuple[str, Any]:
        if position in self.fixed:
            return "fixed", position
        if position in self.given:
            return "given", self.given.index(position)
        symbol = _symbol(self._examples[position])
        if symbol is None:
            return "number", self._inputs[position]
        for index, tensor in enumerate(self.given):
            for axis, size in enumerate(self._examples[tensor].shape):
                if _symbol(size) == symbol:
                    return "size", (index, axis)
        raise _Unsuited(f"input {position} is a number of its own")

    def export(self) -> torch.export.ExportedProgram:
        dynamic = []
        for position in self.given:
            sizes = getattr(self._examples[position], "shape", self._inputs[position].shape)
            axes = {axis: torch.export.Dim.DYNAMIC for axis, n in enumerate(sizes) if _symbol(n)}
            dynamic.append(axes or None)
        module = _Wrapped(self._graph, self._sources, self.fixed)
        given = tuple(self._inputs[position].detach() for position in self.given)
        with torch.no_grad():
            return torch.export.export(module, given, dynamic_shapes={"given": tuple(dynamic)})

    def mutated(self, program: torch.export.ExportedProgram) -> set[int]:
        """The fixed inputs that the program mutates after all."""
        # Exported programs tell once nothing in them works in place any more.
        signature = program.run_decompositions({}).graph_signature
        names = [*signature.buffers_to_mutate.values(), *signature.parameters_to_mutate.values()]
        return {int(name.rsplit("_", 1)[1]) for name in names if name.startswith("fixed_")}


def _content(tensor: torch.Tensor) -> tuple[int, int]:
    """Another pair once the tensor is another one, or was written to."""
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version


class _Loaded:
    """An instance and the weights that it was made with."""

    def __init__(
        self, graph: GraphModule, inputs: list[Any], options: dict[str, Any], has_weights: bool
    ) -> None:
        everything = set() if has_weights else set(range(len(inputs)))
        prepared = _Program(graph, inputs, everything)
        program = prepared.export()
        mutated = prepared.mutated(program) if has_weights else set()
        if mutated:
            prepared = _Program(graph, inputs, mutated)
            program = prepared.export()
        self._given = prepared.given
        self._weights = {at: _content(inputs[at]) for at in prepared.fixed}
        handle, path = tempfile.mkstemp(suffix=".pt2")
        os.close(handle)
        try:
            torch.export.save(program, path)
            self.instance = _shared_session(options).load(path).instance()
        finally:
            os.unlink(path)  # the library keeps it mapped

    def fits(self, inputs: tuple[Any, ...]) -> bool:
        return all(_content(inputs[at]) == content for at, content in self._weights.items())

    def __call__(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        outputs = self.instance.call_flat([inputs[position] for position in self._given])
        return tuple(None if output is None else torch.from_dlpack(output) for output in outputs)


# Sets of weights that are prepared for one graph; beyond them weights are given at every call.
_WEIGHTS_MAX = 4


class Compiled:
    """What Dynamo calls in a graph's place.

    One graph serves all modules of a kind, and weights change when somebody trains: every call looks
    whether the weights are still those that an instance was made with.
    """

    def __init__(self, graph: GraphModule, options: dict[str, Any]) -> None:
        self._graph = graph
        self._options = options
        self._loaded: list[_Loaded] = []
        self._is_torchs = False

    def _load(self, inputs: tuple[Any, ...]) -> Optional[_Loaded]:
        try:
            has_weights = len(self._loaded) < _WEIGHTS_MAX
            loaded = _Loaded(self._graph, list(inputs), self._options, has_weights)
            self._loaded.append(loaded)
            return loaded
        except (_Unsuited, Error) as reason:
            warnings.warn(f"lfarm leaves a graph to torch: {reason}", stacklevel=3)
        except Exception as reason:  # torch.export says in many ways what it cannot export
            text = str(reason).strip().split("\n")[0]
            warnings.warn(
                f"lfarm leaves a graph to torch, which cannot export it: {text}", stacklevel=3
            )
        self._is_torchs = True
        return None

    @torch._dynamo.disable
    def __call__(self, *inputs: Any) -> Any:
        needs_gradients = torch.is_grad_enabled() and any(
            isinstance(value, torch.Tensor) and value.requires_grad for value in inputs
        )
        if needs_gradients or self._is_torchs:
            return self._graph(*inputs)
        fitting = next((loaded for loaded in self._loaded if loaded.fits(inputs)), None)
        loaded = fitting or self._load(inputs)
        return self._graph(*inputs) if loaded is None else loaded(inputs)


def backend(
    graph: GraphModule, example_inputs: list[Any], *, options: Optional[dict[str, Any]] = None
) -> Callable[..., Any]:
    """For torch.compile. `options` are lfarm.Session's, such as {"farm": "tcp://host:7171"}."""
    del example_inputs  # the first call's are real
    return Compiled(graph, dict(options or {}))
