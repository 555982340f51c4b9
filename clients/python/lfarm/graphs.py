"""Graphs of torch.fx as models of a session: exported once, then called with torch's own memory.

The inputs that `fixed` names become weights of the model. All others are given by pointer at every call,
and what the graph mutates among them is written where it lies. Tensors whose dimensions are dense in
another order, such as transposed ones, are taken and returned in that order, so that nothing is copied.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import threading
import warnings
import weakref
from typing import Any, Callable, Iterable, Optional, Sequence, TypeVar

import torch
from torch.fx import Graph, GraphModule, Node

from lfarm import tensors
from lfarm._native import Error
from lfarm.logs import DYNAMO
from lfarm.model import Instance, _shared_session
from lfarm.premises import Premises
from lfarm.written_out import names_written, written_out

_Made = TypeVar("_Made")


class Unsuited(Exception):
    """Why a graph is left to torch."""


# The instances that graphs run on, while they live.
instances: weakref.WeakSet[Instance] = weakref.WeakSet()
# The graphs that torch.compile gave, while they live: each has `role`, `graph` and `left`.
compiled: weakref.WeakSet[Any] = weakref.WeakSet()

# The sizes of a call's inputs.
_Sizes = tuple[torch.Size, ...]

_NO_SIZES = torch.Size()

# Sets of inputs' sizes whose outputs are remembered.
_SIZES_MAX = 256


def meta_of(node: Node) -> Any:
    """What a node's value was when it was traced, with symbols for sizes that may change."""
    return node.meta.get("val", node.meta.get("example_value"))


def graph_of(
    owner: GraphModule, inputs: list[Node], body: list[Node], outputs: Sequence[Any]
) -> GraphModule:
    """The function of `inputs` that `body` computes."""
    graph, copies = Graph(), {}
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in body:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(torch.fx.map_arg(list(outputs), copies.__getitem__)))
    return GraphModule(owner, graph)


def lifted(graph: GraphModule) -> tuple[GraphModule, list[torch.Tensor]]:
    """The graph with tensors of its own, such as an optimiser's parameters, as its last inputs, and
    these tensors."""
    nodes = list(graph.graph.nodes)
    own = {node: _attribute(graph, node.target) for node in nodes if node.op == "get_attr"}
    own = {node: value for node, value in own.items() if isinstance(value, torch.Tensor)}
    if not own:
        return graph, []
    for node, tensor in own.items():
        node.meta["example_value"] = tensor
    inputs = [*(node for node in nodes if node.op == "placeholder"), *own]
    body = [node for node in nodes if node not in inputs and node.op != "output"]
    (output,) = (node for node in nodes if node.op == "output")
    return graph_of(graph, inputs, body, output.args[0]), list(own.values())


def _attribute(graph: GraphModule, path: str) -> Any:
    value: Any = graph
    for name in path.split("."):
        value = getattr(value, name)
    return value


def gpu_of(inputs: Sequence[Any]) -> Optional[int]:
    """The number of the GPU that a graph works on; None: the processor."""
    devices = {value.device for value in inputs if isinstance(value, torch.Tensor)}
    unknown = [device for device in devices if device.type not in ("cpu", "cuda")]
    if unknown:
        raise Unsuited(f"an input is on {unknown[0]}")
    gpus = sorted(device.index for device in devices if device.type == "cuda")
    if len(gpus) > 1:
        raise Unsuited(f"its inputs are on cuda:{gpus[0]} and cuda:{gpus[1]}")
    return gpus[0] if gpus else None


def _options_for(gpu: Optional[int], options: dict[str, Any]) -> dict[str, Any]:
    """A session's options for the device that a graph works on."""
    if gpu is None:
        return options
    device, asked = f"cuda:{gpu}", options.get("device", "auto")
    if asked not in (device, "cuda", "auto"):
        raise Unsuited(f"its inputs are on {device}, and lfarm was asked to work on {asked}")
    return {**options, "device": device}


def _symbol(value: Any) -> Optional[str]:
    """The expression of a size that may change; None for a number."""
    if not isinstance(value, torch.SymInt):
        return None
    text = str(value.node.expr)
    return None if text.lstrip("-").isdigit() else text


def _number(size: Any) -> int:
    """A size, or the one that a symbol was traced with."""
    return int(size.node.hint) if isinstance(size, torch.SymInt) else int(size)


def dense_order(sizes: Sequence[int], strides: Sequence[int]) -> Optional[list[int]]:
    """The order of the dimensions in which a tensor is row-major without gaps; None: there is none.

    >>> dense_order([2, 3], [1, 2])
    [1, 0]
    """
    order = list(range(len(sizes)))
    for attempt in (order, sorted(order, key=lambda axis: -strides[axis])):
        expected = 1
        for axis in reversed(attempt):
            if sizes[axis] != 1 and strides[axis] != expected:
                break
            expected *= sizes[axis]
        else:
            return attempt
    return order if 0 in sizes else None


def given_tensor(value: Any) -> torch.Tensor:
    """What a call gives for an input: numbers that are no input's size are tensors of no axes."""
    return value if isinstance(value, torch.Tensor) else torch.tensor(int(value))


def _other_order(sizes: Sequence[Any], strides: Sequence[Any]) -> Optional[list[int]]:
    """The order of a dense tensor that is not row-major; None for all others."""
    order = dense_order([_number(size) for size in sizes], [_number(step) for step in strides])
    return None if order is None or order == sorted(order) else order


def _inverse(order: list[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def _in_order(order: Optional[list[int]]) -> Any:
    """What gives a row-major result the dimensions that the graph's has."""
    if order is None:
        return lambda result: result
    back = _inverse(order)
    return lambda result: result.permute(back)


class _Stated(torch.fx.Interpreter):
    """Runs a graph and states which sizes attention takes to be equal, so that an exported program knows
    it: PyTorch looks at them no sooner than at a call, and caches of keys have a symbol a layer."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if getattr(target, "__name__", "").startswith("scaled_dot_product_attention"):
            _state_attention(*args, **kwargs)
        return super().call_function(target, args, kwargs)


def _state_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: Optional[torch.Tensor] = None,
    *_: Any,
    **__: Any,
) -> None:
    torch._check(key.shape[-2] == value.shape[-2])
    if attn_mask is None:
        return
    for size, whole in ((attn_mask.shape[-1], key.shape[-2]), (attn_mask.shape[-2], query.shape[-2])):
        if _number(size) != 1 or _number(whole) == 1:  # else it is broadcast
            torch._check(size == whole)


def _as_tensor(result: Any) -> Any:
    """A number that is known at a call only as a tensor of no axes; everything else as it is."""
    if isinstance(result, torch.SymInt):
        return torch.scalar_tensor(result, dtype=torch.int64)
    return result


class _Wrapped(torch.nn.Module):
    """The graph as a function of its given tensors; sizes are read off them again."""

    def __init__(
        self,
        graph: GraphModule,
        sources: list[Any],
        fixed: dict[int, torch.Tensor],
        orders: list[Optional[list[int]]],
    ) -> None:
        super().__init__()
        self.graph = graph
        self._sources = sources
        self._orders = orders
        for position, tensor in fixed.items():
            self.register_buffer(f"fixed_{position}", tensor.detach())

    def forward(self, *given: torch.Tensor) -> Any:
        values: list[Any] = []
        for kind, what in self._sources:
            if kind == "given":
                index, order = what
                values.append(given[index] if order is None else given[index].permute(_inverse(order)))
            elif kind == "fixed":
                values.append(getattr(self, f"fixed_{what}"))
            elif kind == "size":
                values.append(given[what[0]].shape[what[1]])
            elif kind == "scalar":
                values.append(given[what].item())
            else:
                values.append(what)
        results = _Stated(self.graph).run(*values)
        if any(kind == "scalar" for kind, _ in self._sources):  # then outputs may depend on their values
            results = [_as_tensor(result) for result in results]
        return tuple(
            result if order is None else result.permute(order)
            for result, order in zip(results, self._orders)
        )


def name_in_dynamo() -> str:
    """What people call the code that Dynamo compiles now, to be asked by a backend: the module's class,
    else the function. "Graph" where this version of Dynamo doesn't say."""
    frame = sys._getframe()
    while frame is not None:
        scope = getattr(frame.f_locals.get("self"), "local_scope", None)
        if isinstance(scope, dict):
            owner = scope.get("self")
            code = getattr(getattr(frame.f_locals["self"], "root_tx", None), "f_code", None)
            name = getattr(code, "co_name", "")
            if isinstance(owner, torch.nn.Module):
                name = type(owner).__name__
            return name if name.isidentifier() else "Graph"
        frame = frame.f_back
    return "Graph"


class Program:
    """A graph with example inputs: which of them are given at a call, and how to export it.

    `fixed`: the positions of the inputs that become weights.
    """

    def __init__(self, graph: GraphModule, inputs: Sequence[Any], fixed: set[int]) -> None:
        self._graph = graph
        self._inputs = inputs
        nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
        self._examples = [meta_of(node) for node in nodes]
        is_tensor = [isinstance(value, torch.Tensor) for value in inputs]
        for at, value in enumerate(inputs):
            if is_tensor[at] and (value.is_conj() or value.is_neg()):
                raise Unsuited(f"input {at} is a view of another tensor's conjugate")
        used = [bool(node.users) for node in nodes]
        self.fixed = {at: inputs[at] for at in sorted(fixed) if is_tensor[at]}
        self.given = [
            at for at in range(len(inputs)) if is_tensor[at] and at not in fixed and used[at]
        ]
        self.orders = [_other_order(inputs[at].shape, inputs[at].stride()) for at in self.given]
        sizes = {_symbol(size) for at in self.given for size in self._examples[at].shape}
        symbols = [_symbol(value) for value in self._examples]
        scalars = [at for at, one in enumerate(symbols) if one and used[at] and one not in sizes]
        self.given += scalars
        self.orders += [None] * len(scalars)
        self._sources = [self._source(at, used[at]) for at in range(len(inputs))]
        (output,) = (node for node in graph.graph.nodes if node.op == "output")
        self.output_orders = [self._output_order(result) for result in output.args[0]]
        self.is_size = [
            isinstance(result, Node) and isinstance(meta_of(result), (torch.SymInt, int))
            for result in output.args[0]
        ]

    @staticmethod
    def _output_order(result: Any) -> Optional[list[int]]:
        value = meta_of(result) if isinstance(result, Node) else None
        return _other_order(value.shape, value.stride()) if isinstance(value, torch.Tensor) else None

    def _source(self, position: int, is_used: bool) -> tuple[str, Any]:
        if position in self.fixed:
            return "fixed", position
        if position in self.given:
            index = self.given.index(position)
            if not isinstance(self._inputs[position], torch.Tensor):
                return "scalar", index
            return "given", (index, self.orders[index])
        symbol = _symbol(self._examples[position])
        if symbol is None or not is_used:
            value = self._inputs[position]
            return "number", None if isinstance(value, torch.Tensor) else value
        for index, tensor in enumerate(self.given):
            if not isinstance(self._inputs[tensor], torch.Tensor):
                continue
            for axis, size in enumerate(self._examples[tensor].shape):
                if _symbol(size) == symbol:
                    order = self.orders[index]
                    return "size", (index, axis if order is None else order.index(axis))
        raise Unsuited(f"input {position} is a number that no other input has")

    def export(self) -> torch.export.ExportedProgram:
        """The graph as torch.export's program. Raises what torch.export does."""
        dynamic, given = [], []
        for position, order in zip(self.given, self.orders):
            tensor = given_tensor(self._inputs[position]).detach()
            example = self._examples[position]
            sizes = list(example.shape) if isinstance(example, torch.Tensor) else []
            if order is not None:
                tensor, sizes = tensor.permute(order), [sizes[axis] for axis in order]
            # AUTO: the exporter may find that a size is the only one, which is then a premise.
            axes = {axis: torch.export.Dim.AUTO for axis, n in enumerate(sizes) if _symbol(n)}
            dynamic.append(axes or None)
            given.append(tensor)
        # Farms call the job as the exported module's class is called.
        wrapped = type(self._graph.meta.get("lfarm_name", "Graph"), (_Wrapped,), {})
        module = wrapped(self._graph, self._sources, self.fixed, self.output_orders)
        shapes = {"given": tuple(dynamic)} if given else None
        with torch.no_grad():
            # Dynamo, which PyTorch 2.6 asks unless it is told not to, cannot trace what runs the graph.
            program = torch.export.export(
                module, tuple(given), dynamic_shapes=shapes, strict=False
            )
        program = written_out(program)
        if program.graph_signature.output_specs:
            return program
        return program.run_decompositions({})  # what it mutates becomes an output, without which
        # torch.export.save() fails

    def premises(self, program: torch.export.ExportedProgram) -> Premises:
        """What the exported program takes for granted beyond what Dynamo looks at."""
        nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
        sizes = []
        for at, order, name in zip(self.given, self.orders, program.graph_signature.user_inputs):
            exported = meta_of(nodes[name]).shape
            for axis, size in enumerate(getattr(self._examples[at], "shape", ())):
                only = exported[axis if order is None else order.index(axis)]
                if _symbol(size) and not _symbol(only):
                    sizes.append((at, axis, _number(only)))
        return Premises(tuple(sizes))

    def mutated(self, program: torch.export.ExportedProgram) -> set[int]:
        """The positions of the inputs that the program mutates."""
        # Exported programs tell once nothing in them works in place any more.
        signature = program.run_decompositions({}).graph_signature
        names = names_written(signature)
        fixed = {int(name.rsplit("_", 1)[1]) for name in names if name.startswith("fixed_")}
        order = list(signature.user_inputs)
        changed = signature.user_inputs_to_mutate.values()
        return fixed | {self.given[order.index(name)] for name in changed}


def _instance_of(
    program: torch.export.ExportedProgram,
    weights: dict[str, torch.Tensor],
    gpu: Optional[int],
    options: dict[str, Any],
) -> Instance:
    session = _shared_session(_options_for(gpu, options))
    handle, path = tempfile.mkstemp(suffix=".pt2")
    os.close(handle)
    try:
        torch.export.save(program, path)
        model = session.load(path)
    finally:
        os.unlink(path)  # the library keeps it mapped
    if gpu is not None:
        known = set(program.graph_signature.inputs_to_buffers.values())
        with torch.cuda.device(gpu):
            model.bind({name: weights[name].contiguous() for name in known & weights.keys()})
    return model.instance()


class Runner:
    """An exported graph's instance, called with the graph's inputs.

    `mutated`: the positions of the inputs that the graph mutates. `donated`: of those whose memory calls
    may write, since nobody else needs them any more.
    """

    def __init__(
        self,
        prepared: Program,
        program: torch.export.ExportedProgram,
        mutated: set[int],
        gpu: Optional[int],
        options: dict[str, Any],
        donated: Iterable[int] = (),
    ) -> None:
        weights = {f"fixed_{at}": tensor for at, tensor in prepared.fixed.items()}
        self.instance = _instance_of(program, weights, gpu, options)
        instances.add(self.instance)
        self._given = list(zip(prepared.given, prepared.orders))
        self.instance.donate([index for index, at in enumerate(prepared.given) if at in donated])
        self._finish = [
            int if is_size else _in_order(order)
            for is_size, order in zip(prepared.is_size, prepared.output_orders)
        ]
        self._mutated = mutated
        self._gpu = gpu
        self._turn = threading.Lock()  # of the rows
        self._inputs_row, self._outputs_row = tensors.Row(), tensors.Row()
        self._outputs: dict[_Sizes, list[Any]] = {}

    def sizes(self, inputs: Sequence[Any]) -> _Sizes:
        """The sizes of the tensors that a call gives."""
        return tuple([getattr(inputs[position], "shape", _NO_SIZES) for position, _ in self._given])

    def knows(self, inputs: Sequence[Any]) -> bool:
        """Whether a call of these sizes has been made."""
        return self.sizes(inputs) in self._outputs

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        given = [
            given_tensor(inputs[position]) if order is None else inputs[position].permute(order)
            for position, order in self._given
        ]
        if self._gpu is None:
            with self._turn:
                results = self._run(given, self.sizes(inputs), None)
        else:
            with self._turn, torch.cuda.device(self._gpu):
                stream = torch.cuda.current_stream().cuda_stream or tensors.DEFAULT_STREAM
                results = self._run_on_gpu(given, self.sizes(inputs), stream)
        return tuple([finish(result) for finish, result in zip(self._finish, results)])

    def _run_on_gpu(
        self, given: list[torch.Tensor], sizes: _Sizes, stream: int
    ) -> list[Optional[torch.Tensor]]:
        used = [tensor.contiguous() for tensor in given]
        results = self._run(used, sizes, stream)
        for (position, _), tensor, content in zip(self._given, given, used):
            if position in self._mutated and content.data_ptr() != tensor.data_ptr():
                tensor.detach().copy_(content.detach())
        return results

    def _run(
        self, given: list[torch.Tensor], sizes: _Sizes, stream: Optional[int]
    ) -> list[Optional[torch.Tensor]]:
        self._inputs_row.fill(given)
        known = self._outputs.get(sizes)
        if known is None:
            outputs = self.instance.call_row(self._inputs_row, stream=stream)
            results = [None if output is None else tensors.to_torch(output) for output in outputs]
            if len(self._outputs) == _SIZES_MAX:
                self._outputs.clear()
            self._outputs[sizes] = [
                None if result is None else (result.shape, result.dtype) for result in results
            ]
            return results
        # torch's own memory: it knows who still uses it, and gives a capture what is its own.
        device = "cpu" if self._gpu is None else "cuda"
        results = [
            None if value is None else torch.empty(value[0], dtype=value[1], device=device)
            for value in known
        ]
        self._outputs_row.fill(results)
        self.instance.call_row(self._inputs_row, stream=stream, outputs=self._outputs_row)
        return results


class LeftToTorch:
    """Whether a graph is left to torch, and the one warning that says why."""

    def __init__(self) -> None:
        self.is_for_good = False
        self.reason: Optional[str] = None  # of the first warning

    def warn(self, reason: str) -> None:
        """Once for each graph."""
        if self.reason is None:
            warnings.warn(f"lfarm leaves a graph to torch{reason}", stacklevel=4)
            DYNAMO.info("a graph is left to torch%s", reason)
            self.reason = reason.lstrip(":, ")

    def attempt(self, make: Callable[[], _Made]) -> Optional[_Made]:
        """What `make` returns; None where it fails, and the graph is torch's from then on."""
        try:
            return make()
        except (Unsuited, Error) as reason:
            self.warn(f": {reason}")
        except Exception as reason:  # torch.export says in many ways what it cannot export
            text = str(reason).strip().split("\n")[0]
            self.warn(f", which cannot export it: {text}")
        self.is_for_good = True
        return None

    def can_run(self, runner: Runner, inputs: Sequence[Any]) -> bool:
        """Whether the runner has a plan for the call. False for a call that is captured, too, for
        whose sizes nothing is reserved."""
        if is_capturing():
            return runner.knows(inputs)
        try:
            return runner.instance.has_plan()
        except Error as reason:  # a farm that is away is asked again
            self.warn(f" as long as there is no plan: {reason}")
            return False


def release_freed() -> None:
    """Gives the system what the process has freed. What compiling took would else stay the process's:
    87 MB after GPT-2 of four layers."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
    if trim is not None:
        trim(0)


def is_capturing() -> bool:
    """Whether torch captures a CUDA graph on this thread: no time to compile anything."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
