"""torch.compile(model, backend="lfarm"): graphs that Dynamo captures, run by plans of a farm.

Without gradients, parameters and buffers that nothing mutates become weights of the plan, which are
prepared once. What a graph mutates, such as a static cache or an optimiser's state, stays torch's own
memory and is written there. Graphs that need gradients are trained by plans (training.py). What lfarm
does not know is left to torch, with a warning that says why.

Graphs on a GPU run there, on torch's current stream and memory. Until their plan is there torch runs
them, since an interpreter on the host would be slower than either.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import torch
from torch.fx import GraphModule

from lfarm import graphs, lengths, training
from lfarm.graphs import (
    LeftToTorch,
    Program,
    Runner,
    Unsuited,
    gpu_of,
    is_capturing,
    lifted,
    meta_of,
    name_in_dynamo,
)
from lfarm.logs import DYNAMO
from lfarm.model import Instance
from lfarm.options import session_options

# Dynamo breaks a graph at a recurrent layer unless it is asked to capture its steps.
if hasattr(torch._dynamo.config, "allow_rnn"):
    torch._dynamo.config.allow_rnn = True

# Sets of weights that are prepared for one graph; beyond them weights are given at every call.
_WEIGHTS_MAX = 4
# Programs of one graph whose premises a call does not keep, after which the graph is torch's.
_PREMISES_MAX = 2


def _is_fixed(example: Any) -> bool:
    static = getattr(example, "_dynamo_static_input_type", None) is not None
    return static or isinstance(example, torch.nn.Parameter)


def _fixed_inputs(graph: GraphModule) -> set[int]:
    """The positions of the graph's parameters and buffers."""
    nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
    return {at for at, node in enumerate(nodes) if _is_fixed(meta_of(node))}


def _content(tensor: torch.Tensor) -> tuple[int, int]:
    """Another pair once the tensor is another one, or was written to."""
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version


class _Loaded:
    """A graph's runner and the weights that it was made with."""

    def __init__(
        self, graph: GraphModule, inputs: Sequence[Any], options: dict[str, Any], has_weights: bool
    ) -> None:
        gpu = gpu_of(inputs)
        fixed = _fixed_inputs(graph) if has_weights else set()
        prepared = Program(graph, inputs, fixed)
        program = prepared.export()
        mutated = prepared.mutated(program)
        if not mutated.isdisjoint(prepared.fixed):
            prepared = Program(graph, inputs, fixed - mutated)
            program = prepared.export()
        self._weights = {at: _content(inputs[at]) for at in prepared.fixed}
        self.premises = prepared.premises(program)
        self.runner = Runner(prepared, program, mutated, gpu, options)
        self.is_on_gpu = gpu is not None

    def fits(self, inputs: Sequence[Any]) -> bool:
        return self.premises.hold(inputs) and all(
            _content(inputs[at]) == content for at, content in self._weights.items()
        )


class Compiled:
    """What Dynamo calls in the place of a graph that needs no gradients.

    One graph serves all modules of a kind, and weights change when somebody trains: every call looks
    whether the weights are still those that an instance was made with.
    """

    def __init__(self, graph: GraphModule, options: dict[str, Any]) -> None:
        self.role, self.graph, self.left = "inference", graph, LeftToTorch()
        self._lifted, self._own = lifted(graph)
        self._lifted.meta["lfarm_name"] = name_in_dynamo()
        self._options = options
        self._loaded: list[_Loaded] = []
        graphs.compiled.add(self)

    def _load(self, inputs: Sequence[Any]) -> _Loaded:
        if sum(not one.premises.hold(inputs) for one in self._loaded) >= _PREMISES_MAX:
            raise Unsuited("its programs are right for single sizes, and calls come with many")
        has_weights = len(self._loaded) < _WEIGHTS_MAX
        loaded = _Loaded(self._lifted, inputs, self._options, has_weights)
        self._loaded.append(loaded)
        DYNAMO.info("a graph of %d nodes runs by a plan", len(self.graph.graph.nodes))
        DYNAMO.debug("its %d inputs are %s", len(inputs), [getattr(one, "shape", one) for one in inputs])
        return loaded

    @torch._dynamo.disable
    def __call__(self, *given: Any) -> Any:
        if self.left.is_for_good:
            return self.graph(*given)
        inputs = [*given, *self._own]
        loaded = next((one for one in self._loaded if one.fits(inputs)), None)
        if loaded is None:
            if is_capturing():
                return self.graph(*given)
            loaded = self.left.attempt(lambda: self._load(inputs))
        if loaded is None or loaded.is_on_gpu and not self.left.can_run(loaded.runner, inputs):
            return self.graph(*given)
        return loaded.runner(inputs)


def instances() -> list[Instance]:
    """What the graphs run on that torch.compile() made and still has, such as to profile them:

    >>> with contextlib.ExitStack() as stack:
    ...     profiles = [stack.enter_context(one.profile()) for one in instances()]
    ...     train_one_step()
    """
    return list(graphs.instances)


def backend(
    graph: GraphModule,
    example_inputs: list[Any],
    *,
    options: Optional[dict[str, Any]] = None,
    mode: Optional[str] = None,
) -> Callable[..., Any]:
    """For torch.compile. `options` are lfarm.Session's, such as {"farm": "tcp://host:7171"}; `mode` is
    one of torch's: "max-autotune" searches longer, the others say nothing that lfarm would not do
    anyway. Raises ValueError for an option or a mode that is none."""
    wanted = session_options(options, mode)
    DYNAMO.debug("Dynamo gives a graph of %d nodes:\n%s", len(graph.graph.nodes), graph.graph)
    if training.needs_gradients(example_inputs):
        return training.compiled(graph, example_inputs, wanted)
    lengths.expect_others()
    return Compiled(graph, wanted)
