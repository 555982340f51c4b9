"""Training by plans: the forward and the backward graph of AOTAutograd, each one a model of its own.

Parameters, buffers and gradients stay torch's memory and are given by pointer at every call, so that an
optimiser's step changes no plan. What a plan cannot or need not compute stays torch's: random numbers are
drawn by torch's generator before the call, and outputs that are views, such as a transposed weight that
the backward graph needs, are made of what the plan returned or was given.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Optional, Sequence

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import TorchDynamoException
from torch.fx import GraphModule, Node
from torch.nn.attention import SDPBackend, sdpa_kernel

from lfarm import graphs
from lfarm.donation import Donation
from lfarm.graphs import (
    LeftToTorch,
    Program,
    Runner,
    Unsuited,
    gpu_of,
    graph_of,
    meta_of,
    release_freed,
)
from lfarm.partition import BoundedPartition, partition_for
from lfarm.recurrent import with_dropout

_AnyGraph = Callable[..., Any]


def needs_gradients(inputs: Sequence[Any]) -> bool:
    """Whether a graph that is compiled for such inputs has to be differentiated."""
    return torch.is_grad_enabled() and any(
        isinstance(value, torch.Tensor) and value.requires_grad for value in inputs
    )


def _dropout(x: torch.Tensor, p: float, train: Optional[bool]) -> tuple[torch.Tensor, torch.Tensor]:
    """aten.native_dropout by the numbers that eager draws on the processor."""
    if p == 0 or train is False:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    kept = torch.ops.aten.bernoulli.p(torch.empty_like(x), 1 - p)
    return x * (kept * (1 / (1 - p) if p < 1 else 0)), kept.bool()


def _decompositions() -> dict[Any, Callable[..., Any]]:
    table = torch._decomp.core_aten_decompositions()
    table = {op: rule for op, rule in table.items() if op is not torch.ops.aten.bernoulli.p}
    return {**table, torch.ops.aten.native_dropout.default: _dropout}


# Operators that run another one with a random state that was kept: what is computed again, such as
# under torch.utils.checkpoint, draws the same numbers. By where they are told the state, if they are.
_WITH_STATES: dict[str, Callable[[Node], Optional[Node]]] = {
    "run_and_save_rng_state": lambda node: None,  # gives the state before, and the result
    "run_with_rng_state": lambda node: node.args[0],
    "graphsafe_run_with_rng_state": lambda node: node.kwargs.get("rng_state"),
}


def _has_state(node: Node) -> bool:
    is_nested = isinstance(node.target, torch._ops.HigherOrderOperator)
    return is_nested and node.target.name() in _WITH_STATES


def _is_random(node: Node) -> bool:
    if _has_state(node):
        return True
    return (
        isinstance(node.target, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded in node.target.tags
    )


def _is_view(node: Node) -> bool:
    """Whether the node is a view of its first argument, with nothing else that is computed."""
    is_view = getattr(node.target, "is_view", False)
    return is_view and [one.name for one in node.all_input_nodes] == [str(node.args[0])]


def _root(node: Node) -> Node:
    while _is_view(node):
        node = node.args[0]
    return node


# Random operators that read nothing but the sizes of a tensor.
_BY_SIZES = {
    "bernoulli.p",
    "cauchy",
    "exponential",
    "geometric",
    "log_normal",
    "normal_functional",
    "rand_like",
    "randint_like",
    "randint_like.low_dtype",
    "randn_like",
    "uniform",
}


class _Drawn:
    """A node whose random numbers torch draws before the plan runs. `nodes` are those that the drawn
    values stand for: the node itself, or the parts of its result."""

    def __init__(self, node: Node, inputs: list[Node]) -> None:
        state = _WITH_STATES[node.target.name()](node) if _has_state(node) else None
        operators = [one for one in (node.target, *node.args) if isinstance(one, torch._ops.OpOverload)]
        name = str(operators[0]).removeprefix("aten.").removesuffix(".default")
        read = [one for one in node.all_input_nodes if one is not state]
        if read and name not in _BY_SIZES or state is not None and state not in inputs:
            raise Unsuited(f"{operators[0]} draws by numbers that the graph computes")
        self._node = node
        self._state, self._position = state, inputs.index(state) if state is not None else None
        self._stand_ins = {one: self._stand_in(one) for one in read}
        is_pair = _has_state(node) and node.target.name() == "run_and_save_rng_state"
        self.nodes = list(node.users) if is_pair else [node]  # of a pair: operator.getitem
        if not is_pair and meta_of(node) is None:  # torch's partitioner leaves it out
            node.meta["val"] = self._drawn_apart(operators[0])
        # Like what is drawn. Plans read no states, whose size torch takes for a symbol.
        self.examples = [
            torch.empty(0) if is_pair and one.args[1] == 0 else self._stand_in(one)
            for one in self.nodes
        ]

    def _drawn_apart(self, nested: torch._ops.OpOverload) -> torch.Tensor:
        """What the nested operator draws, with no effect on other numbers."""
        rest = self._node.args[self._node.args.index(nested) + 1 :]
        named = {name: one for name, one in self._node.kwargs.items() if one is not self._state}
        with torch.random.fork_rng():
            return nested(*torch.fx.map_arg(rest, self._stand_ins.get), **named)

    def _stand_in(self, node: Node) -> torch.Tensor:
        value = meta_of(node)
        if not isinstance(value, torch.Tensor) or not all(type(n) is int for n in value.shape):
            raise Unsuited(f"{self._node.target} draws as many numbers as a call's sizes say")
        return torch.empty_strided(
            value.shape, value.stride(), dtype=value.dtype, device=value.device
        )

    def __call__(self, values: Sequence[Any]) -> list[torch.Tensor]:
        """The values of `nodes`, given those of the graph's inputs."""

        def given(one: Node) -> Any:
            return values[self._position] if one is self._state else self._stand_ins[one]

        arguments = torch.fx.map_arg(self._node.args, given)
        drawn = self._node.target(*arguments, **torch.fx.map_arg(self._node.kwargs, given))
        is_whole = self.nodes == [self._node]
        return [drawn] if is_whole else [drawn[one.args[1]] for one in self.nodes]


class _Parts:
    """A graph's parts: `drawn` by torch, `planned` with the results of `drawn` as further inputs, and
    `finish`, which makes the graph's outputs of all inputs and what `planned` returned.
    """

    def __init__(self, graph: GraphModule) -> None:
        nodes = list(graph.graph.nodes)
        inputs = [node for node in nodes if node.op == "placeholder"]
        random = [node for node in nodes if _is_random(node)]
        self.drawn = [_Drawn(node, inputs) for node in random]
        (output,) = (node for node in nodes if node.op == "output")
        results = [value for value in output.args[0] if isinstance(value, Node)]
        given = [*inputs, *(node for drawn in self.drawn for node in drawn.nodes)]
        roots = dict.fromkeys(_root(node) for node in results)
        computed = [root for root in roots if root not in given]
        apart = {*given, *random, output}
        body = [node for node in nodes if node not in apart]
        self.has_plan = bool(computed)
        self.planned = graph_of(graph, given, body, computed)
        views = [node for node in body if _root(node) in roots and node not in roots]
        self.finish = graph_of(graph, [*given, *computed], views, output.args[0])
        for part in (self.planned, self.finish):
            part.graph.eliminate_dead_code()
            part.recompile()


class PlannedGraph:
    """What AOTAutograd calls in a graph's place. Until there is a plan torch runs the graph."""

    def __init__(self, role: str, graph: GraphModule, options: dict[str, Any]) -> None:
        self._boxed_call = True  # torch gives a list, which is emptied: what was saved can go early
        self.role, self.graph, self.left = role, graph, LeftToTorch()
        self._options = options
        self._donation = Donation(graph if role == "backward" else None)
        self._parts: Optional[_Parts] = None
        self._runner: Optional[Runner] = None
        self._has_run = False
        graphs.compiled.add(self)

    def __call__(self, inputs: list[Any]) -> Any:
        values = list(inputs)
        inputs.clear()
        if not self._is_ready(values):
            return self.graph(*values)
        self._donation.copy_what_others_hold(values)
        for draw in self._parts.drawn:
            values += draw(values)
        computed = self._runner(values) if self._runner else ()
        return self._parts.finish(*values, *computed)

    def _is_ready(self, values: list[Any]) -> bool:
        if self._parts is None and not self.left.is_for_good:
            self.left.attempt(lambda: self._prepare(values))
        if self.left.is_for_good:
            return False
        if self._runner is not None and not self.left.can_run(self._runner, values):
            return False
        if not self._has_run:
            self._has_run = True
            release_freed()
        return True

    def _prepare(self, values: list[Any]) -> None:
        parts = _Parts(self.graph)
        if parts.has_plan:
            inputs = values + [example for draw in parts.drawn for example in draw.examples]
            prepared = Program(parts.planned, inputs, set())
            program = prepared.export()
            if prepared.premises(program):
                raise Unsuited("it is right for some sizes of its inputs alone")
            self._runner = Runner(
                prepared, program, set(), gpu_of(inputs), self._options, self._donation.inputs
            )
        self._parts = parts


class _Undifferentiated:
    """A graph that AOTAutograd cannot take apart, so that torch runs it."""

    def __init__(self, graph: GraphModule, reason: str) -> None:
        self.role, self.graph, self.left = "forward", graph, LeftToTorch()
        self.left.warn(f", which cannot differentiate it: {reason}")
        graphs.compiled.add(self)

    def __call__(self, *inputs: Any) -> Any:
        return self.graph(*inputs)


@contextlib.contextmanager
def _without_mkldnn() -> Iterator[None]:
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before


def compiled(graph: GraphModule, inputs: Sequence[Any], options: dict[str, Any]) -> _AnyGraph:
    """The graph with its derivatives, as torch.compile's backends return it."""

    partition = partition_for(options)

    def planned(role: str, part: GraphModule) -> PlannedGraph:
        is_bounded = isinstance(partition, BoundedPartition)
        return PlannedGraph(role, part, {**options, "memory": partition.left} if is_bounded else options)

    def compiler(role: str) -> Callable[[GraphModule, Sequence[Any]], PlannedGraph]:
        return lambda part, _: planned(role, part)

    differentiated = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        partition_fn=partition,
        decompositions=_decompositions(),
    )
    try:
        # Attention as products and softmax, and recurrent layers as their steps: derivatives of torch's
        # own kernels for them are kernels, too.
        with sdpa_kernel(SDPBackend.MATH), _without_mkldnn():
            return differentiated(with_dropout(graph), inputs)
    except TorchDynamoException:  # Dynamo is to trace anew
        raise
    except Exception as reason:
        return _Undifferentiated(graph, str(reason).strip().splitlines()[0])
