"""What torch.compile(backend="lfarm") does with a model: which graphs lfarm runs, which torch, and why.

>>> print(lfarm.explain(model, x))
2 graphs: 2 by lfarm
forward: lfarm, 12 operators
backward: lfarm, 20 operators
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, Callable, Mapping, Optional


@dataclasses.dataclass(frozen=True)
class GraphExplanation:
    """One graph that Dynamo captured, or that AOTAutograd made of it."""

    role: str  # "inference", "forward" or "backward"
    operators: int  # calls in it
    is_on_lfarm: bool
    reason: Optional[str]  # why torch runs it, for good or until there is a plan

    def __str__(self) -> str:
        where = "lfarm" if self.is_on_lfarm else f"torch, because {self.reason}"
        return f"{self.role}: {where}, {self.operators} operators"


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What became of a model's call. Printed, it says so in lines."""

    graphs: tuple[GraphExplanation, ...]
    breaks: tuple[str, ...]  # why Dynamo ended a graph and began another

    def __str__(self) -> str:
        ours = sum(graph.is_on_lfarm for graph in self.graphs)
        total = len(self.graphs)
        lines = [f"{total} graph{'s' if total != 1 else ''}: {ours} by lfarm"]
        if not self.graphs:
            lines.append("Dynamo captured nothing: torch runs the model as it is")
        lines += [str(graph) for graph in self.graphs]
        lines += [f"graph break: {reason}" for reason in self.breaks]
        return "\n".join(lines)


def explain(
    model: Callable[..., Any],
    *inputs: Any,
    options: Optional[Mapping[str, Any]] = None,
    mode: Optional[str] = None,
    **named: Any,
) -> Explanation:
    """Compiles the model, a module or a function, and calls it once with the inputs; where an input or a
    parameter needs gradients and gradients are on, the results are summed up and differentiated, too.
    What torch.compile made of the process's other models is forgotten, as by torch._dynamo.reset().
    `options` and `mode` are those of torch.compile; `named` are the model's. Raises what the model does.
    """
    import torch

    from lfarm import compile as lfarm_compile
    from lfarm import graphs

    def backend(graph: Any, examples: list[Any]) -> Callable[..., Any]:
        return lfarm_compile.backend(graph, examples, options=dict(options or {}), mode=mode)

    torch._dynamo.reset()
    torch._dynamo.utils.counters["graph_break"].clear()
    known = set(graphs.compiled)
    compiled = torch.compile(model, backend=backend)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="lfarm leaves a graph to torch")
        results = compiled(*inputs, **named)
        leaves = torch.utils._pytree.tree_leaves(results)
        needing = [x for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad]
        if needing:
            given = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
            given += list(model.parameters()) if isinstance(model, torch.nn.Module) else []
            given = [x for x in given if x.requires_grad]
            torch.autograd.grad(sum(x.sum() for x in needing), given, allow_unused=True)
    order = {"inference": 0, "forward": 1, "backward": 2}
    made = sorted(set(graphs.compiled) - known, key=lambda one: order[one.role])
    return Explanation(
        tuple(
            GraphExplanation(
                one.role,
                sum(node.op not in ("placeholder", "output") for node in one.graph.graph.nodes),
                one.left.reason is None,
                one.left.reason,
            )
            for one in made
        ),
        tuple(torch._dynamo.utils.counters["graph_break"]),
    )
