"""Merges equal nodes of a joint graph before it is divided into forward and backward.

torch's own pass (fx_graph_cse) does the same and more, and imports Inductor's pattern matcher for it: 160
modules that take 22 MB of a process which trains by plans.
"""

from __future__ import annotations

from typing import Any, Hashable

import torch
from torch.fx import GraphModule, Node

from lfarm.donation import storage_of

_LIST_TYPES = (list, tuple, torch.fx.immutable_collections.immutable_list)


def _output(graph: GraphModule) -> Node:
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    return output


def _ancestors(nodes: list[Node]) -> set[Node]:
    found: set[Node] = set()
    while nodes:
        node = nodes.pop()
        if node not in found:
            found.add(node)
            nodes.extend(node.all_input_nodes)
    return found


def _key(argument: Any) -> Hashable:
    """Equal for arguments that mean the same: 1 and 1.0 do not."""
    if isinstance(argument, _LIST_TYPES):
        return ("list", *map(_key, argument))
    if isinstance(argument, dict):
        return ("dict", *((name, _key(value)) for name, value in argument.items()))
    return type(argument), argument if isinstance(argument, Hashable) else id(argument)


def _is_function(node: Node) -> bool:
    """Whether the node's value is a function of what it reads."""
    target = node.target
    return (
        isinstance(target, torch._ops.OpOverload)
        and not target._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in target.tags
        and target.overloadpacket is not torch.ops.aten.empty
        and isinstance(node.meta.get("val"), torch.Tensor)
    )


def merge_duplicates(joint: GraphModule, returned: int) -> None:
    """`returned`: how many of the graph's outputs are the forward graph's. What only the forward graph
    needs is not merged with what the backward graph needs, too, which would save it."""
    joint.graph.eliminate_dead_code()
    output = _output(joint)
    results = [node for node in output.args[0] if isinstance(node, Node)]
    gradients = [node for node in output.args[0][returned:] if isinstance(node, Node)]
    backward = _ancestors(gradients)
    kept = {storage_of(node) for node in results} - {None}  # each result has memory of its own
    known: dict[Hashable, Node] = {}
    for node in list(joint.graph.nodes):
        target = node.target
        if isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable:
            break  # equal nodes behind it need not be equal values
        if not _is_function(node) or storage_of(node) in kept:
            continue
        key = (target, node in backward, _key(node.args), _key(node.kwargs))
        first = known.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            joint.graph.erase_node(node)
    joint.recompile()
