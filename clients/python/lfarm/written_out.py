"""Operators that archives cannot hold or plans do not know, written out: of optimisers lists of tensors one
by one and fused products and sums in two, of sizes sums of several.

`_foreach_add.Scalar([a, b], 1)` becomes `[add(a, 1), add(b, 1)]`, `sym_sum((a, b, c))` `a + b + c`.
"""

from __future__ import annotations

import operator
from typing import Any, Callable

import torch
from torch.fx import Graph, Node

_PREFIX = "_foreach_"

# Where the operator on one tensor has another name.
_NAMES = {
    "maximum": "clamp_min",
    "minimum": "clamp_max",
    "norm": "linalg_vector_norm",
    "zero": "zeros_like",
}


def _for_each(overload: Any) -> Callable[..., list[Any]]:
    """The overload of a list as a function that applies the operator to each tensor."""
    name = overload.overloadpacket.__name__[len(_PREFIX) :]
    operator = getattr(torch.ops.aten, _NAMES.get(name, name))
    parameters = overload._schema.arguments
    is_list = {one.name: "[]" in str(one.type) or "List" in str(one.type) for one in parameters}

    def apply(*arguments: Any, **named: Any) -> list[Any]:
        given = dict(zip(is_list, arguments), **named)
        count = len(next(value for key, value in given.items() if is_list[key]))
        results = []
        for index in range(count):
            one = {key: value[index] if is_list[key] else value for key, value in given.items()}
            value = one.pop("value", one.pop("scalars", None)) if name.startswith("addc") else None
            alpha = one.pop("alpha", None)
            extra = {} if value is None else {"value": value}
            if alpha is not None:
                extra["alpha"] = alpha
            results.append(operator(*one.values(), **extra))
        return results

    return apply


def _fma(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


def _rules(target: Any) -> dict[Any, Callable[..., Any]]:
    """How an operator and its variants are written out; nothing where it stays as it is."""
    if target is torch.ops.prims.fma.default:
        return {target: _fma}
    if not isinstance(target, torch._ops.OpOverload):
        return {}
    name = target.overloadpacket.__name__
    if not name.startswith(_PREFIX):
        return {}
    packet = getattr(torch.ops.aten, name.rstrip("_"))  # programs lose their in-place operators first
    overloads = [getattr(packet, one) for one in packet.overloads() if not one.endswith("out")]
    return {overload: _for_each(overload) for overload in overloads}


def written_out(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program without such operators; the program itself where it has none."""
    table: dict[Any, Callable[..., Any]] = {}
    for target in {node.target for node in program.graph.nodes}:
        table.update(_rules(target))
    if table:
        program = program.run_decompositions(table)
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule) and _write_size_sums(module.graph):
            module.recompile()
    return program


def names_written(signature: torch.export.ExportGraphSignature) -> list[str]:
    """The parameters and buffers that a program writes, which has no in-place operators any more."""
    parameters = getattr(signature, "parameters_to_mutate", {})  # PyTorch 2.6 has none
    return [*parameters.values(), *signature.buffers_to_mutate.values()]


def _value(one: Any) -> Any:
    return one.meta["val"] if isinstance(one, Node) else one


def _write_size_sums(graph: Graph) -> bool:
    """Whether the graph had such sums."""
    sums = [node for node in graph.nodes if node.target is torch.sym_sum]
    for node in sums:
        first, *others = node.args[0]
        total = first
        with graph.inserting_before(node):
            for other in others:
                value = _value(total) + _value(other)
                total = graph.call_function(operator.add, (total, other))
                total.meta = {**node.meta, "val": value}
        node.replace_all_uses_with(total)
        graph.erase_node(node)
    return bool(sums)
