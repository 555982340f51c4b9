"""torch.compile(model, backend="lfarm"): graphs that Dynamo captures, run by plans of a farm.

Parameters and buffers that nothing mutates become weights of the plan, which are prepared once. What
a graph mutates, such as a static cache, stays torch's own memory and is written there. Graphs that
lfarm does not know, and calls that need gradients, are left to torch, with a warning that says why.

Graphs on a GPU run there, on torch's current stream and memory. Until their plan is there torch runs
them, since an interpreter on the host would be slower than either.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from typing import Any, Callable, Optional

import torch
from torch.fx import GraphModule

from lfarm import tensors
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


def _gpu_of(inputs: list[Any]) -> Optional[int]:
    """The number of the GPU that a graph works on; None: the processor."""
    devices = {value.device for value in inputs if isinstance(value, torch.Tensor)}
    unknown = [device for device in devices if device.type not in ("cpu", "cuda")]
    if unknown:
        raise _Unsuited(f"an input is on {unknown[0]}")
    gpus = sorted(device.index for device in devices if device.type == "cuda")
    if len(gpus) > 1:
        raise _Unsuited(f"its inputs are on cuda:{gpus[0]} and cuda:{gpus[1]}")
    return gpus[0] if gpus else None


def _options_for(gpu: Optional[int], options: dict[str, Any]) -> dict[str, Any]:
    """A session's options for the device that a graph works on."""
    if gpu is None:
        return options
    device, asked = f"cuda:{gpu}", options.get("device", "auto")
    if asked not in (device, "cuda", "auto"):
        raise _Unsuited(f"its inputs are on {device}, and lfarm was asked to work on {asked}")
    return {**options, "device": device}


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
        """The positions of the inputs that the program mutates."""
        # Exported programs tell once nothing in them works in place any more.
        signature = program.run_decompositions({}).graph_signature
        names = [*signature.buffers_to_mutate.values(), *signature.parameters_to_mutate.values()]
        fixed = {int(name.rsplit("_", 1)[1]) for name in names if name.startswith("fixed_")}
        order = list(signature.user_inputs)
        changed = signature.user_inputs_to_mutate.values()
        return fixed | {self.given[order.index(name)] for name in changed}


def _content(tensor: torch.Tensor) -> tuple[int, int]:
    """Another pair once the tensor is another one, or was written to."""
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version


class _Loaded:
    """An instance and the weights that it was made with."""

    def __init__(
        self, graph: GraphModule, inputs: list[Any], options: dict[str, Any], has_weights: bool
    ) -> None:
        everything = set() if has_weights else set(range(len(inputs)))
        self._gpu = _gpu_of(inputs)
        session = _options_for(self._gpu, options)
        prepared = _Program(graph, inputs, everything)
        program = prepared.export()
        self._mutated = prepared.mutated(program)
        if not self._mutated.isdisjoint(prepared.fixed):
            prepared = _Program(graph, inputs, self._mutated)
            program = prepared.export()
        self._given = prepared.given
        self._weights = {at: _content(inputs[at]) for at in prepared.fixed}
        self._outputs: dict[tuple[torch.Size, ...], list[Optional[_Value]]] = {}
        handle, path = tempfile.mkstemp(suffix=".pt2")
        os.close(handle)
        try:
            torch.export.save(program, path)
            model = _shared_session(session).load(path)
        finally:
            os.unlink(path)  # the library keeps it mapped
        if self._gpu is not None:
            known = set(program.graph_signature.inputs_to_buffers.values())
            weights = {f"fixed_{at}": tensor for at, tensor in prepared.fixed.items()}
            with torch.cuda.device(self._gpu):
                model.bind({name: weights[name].contiguous() for name in known & weights.keys()})
        self.instance = model.instance()

    def fits(self, inputs: tuple[Any, ...]) -> bool:
        return all(_content(inputs[at]) == content for at, content in self._weights.items())

    def can_run(self, inputs: tuple[Any, ...]) -> bool:
        """False where torch is to run the call: on a GPU without a plan, and in a capture for whose
        sizes nothing is reserved. Raises Error where no plan can be had."""
        if self._gpu is None:
            return True
        if torch.cuda.is_current_stream_capturing():
            return self._sizes(inputs) in self._outputs
        return self.instance.has_plan()

    def _sizes(self, inputs: tuple[Any, ...]) -> tuple[torch.Size, ...]:
        return tuple(inputs[position].shape for position in self._given)

    def __call__(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        given = [inputs[position] for position in self._given]
        if self._gpu is not None:
            with torch.cuda.device(self._gpu):
                return self._on_gpu(given, self._sizes(inputs))
        outputs = self.instance.call_flat(given)
        return tuple(None if output is None else tensors.to_torch(output) for output in outputs)

    def _on_gpu(
        self, given: list[torch.Tensor], sizes: tuple[torch.Size, ...]
    ) -> tuple[Any, ...]:
        stream = torch.cuda.current_stream().cuda_stream or tensors.DEFAULT_STREAM
        ready = [tensor.detach().contiguous() for tensor in given]
        known = self._outputs.get(sizes)
        results: list[Optional[torch.Tensor]]
        if known is None:
            outputs = self.instance.call_flat(ready, stream=stream)
            results = [None if output is None else tensors.to_torch(output) for output in outputs]
            if len(self._outputs) == _SIZES_MAX:
                self._outputs.clear()
            self._outputs[sizes] = [
                None if result is None else (result.shape, result.dtype) for result in results
            ]
        else:
            # torch's own memory: it knows who still uses it, and gives a capture what is its own.
            results = [
                None if value is None else torch.empty(value[0], dtype=value[1], device="cuda")
                for value in known
            ]
            self.instance.call_flat(ready, stream=stream, outputs=results)
        for position, tensor, used in zip(self._given, given, ready):
            if position in self._mutated and used.data_ptr() != tensor.data_ptr():
                tensor.detach().copy_(used)
        return tuple(results)


# What an output is like: its sizes and type.
_Value = tuple[torch.Size, torch.dtype]

# Sets of inputs' sizes whose outputs are remembered.
_SIZES_MAX = 256

# Sets of weights that are prepared for one graph; beyond them weights are given at every call.
_WEIGHTS_MAX = 4


def _is_capturing() -> bool:
    """Whether torch captures a CUDA graph on this thread: no time to compile anything."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


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
        self._has_warned = False

    def _warn(self, reason: str) -> None:
        """Once for each graph."""
        if not self._has_warned:
            warnings.warn(f"lfarm leaves a graph to torch{reason}", stacklevel=4)
        self._has_warned = True

    def _load(self, inputs: tuple[Any, ...]) -> Optional[_Loaded]:
        try:
            has_weights = len(self._loaded) < _WEIGHTS_MAX
            loaded = _Loaded(self._graph, list(inputs), self._options, has_weights)
            self._loaded.append(loaded)
            return loaded
        except (_Unsuited, Error) as reason:
            self._warn(f": {reason}")
        except Exception as reason:  # torch.export says in many ways what it cannot export
            text = str(reason).strip().split("\n")[0]
            self._warn(f", which cannot export it: {text}")
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
        if fitting is None and _is_capturing():
            return self._graph(*inputs)
        loaded = fitting or self._load(inputs)
        return loaded(inputs) if loaded and self._can_run(loaded, inputs) else self._graph(*inputs)

    def _can_run(self, loaded: _Loaded, inputs: tuple[Any, ...]) -> bool:
        try:
            return loaded.can_run(inputs)
        except Error as reason:  # a farm that is away is asked again
            self._warn(f" as long as there is no plan: {reason}")
            return False


def backend(
    graph: GraphModule, example_inputs: list[Any], *, options: Optional[dict[str, Any]] = None
) -> Callable[..., Any]:
    """For torch.compile. `options` are lfarm.Session's, such as {"farm": "tcp://host:7171"}."""
    del example_inputs  # the first call's are real
    return Compiled(graph, dict(options or {}))
