"""What a forward graph saves for its backward graph.

torch's partitioner decides it: by default it saves what a minimum cut says, and with a budget below 1 it
computes more of it again, the quickest operators first (torch._functorch.config.activation_memory_budget).
"""

from __future__ import annotations

import copy
from typing import Any, Callable

import torch
from torch._functorch import config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule, Node
from torch.utils.checkpoint import CheckpointPolicy

from lfarm.duplicates import merge_duplicates

# Shares of what the minimum cut would save, tried in this order; 0 saves inputs alone.
_SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)

Partition = Callable[..., "tuple[GraphModule, GraphModule]"]


def saved_bytes(forward: GraphModule, returned: int) -> int:
    """Bytes that the forward graph keeps for the backward graph beyond inputs and its first `returned`
    outputs, which are the caller's.

    >>> saved_bytes(forward, num_fwd_outputs)
    1048576
    """
    (output,) = (node for node in forward.graph.nodes if node.op == "output")
    results = output.args[0]
    given = set(results[:returned])
    saved = {node for node in results[returned:] if isinstance(node, Node)}
    total = 0
    for node in saved:
        value = node.meta.get("val")
        if node.op != "placeholder" and node not in given and isinstance(value, torch.Tensor):
            total += value.numel() * value.element_size()
    return total


def _saved_inputs(forward: GraphModule, returned: int) -> set[str]:
    (output,) = (node for node in forward.graph.nodes if node.op == "output")
    results = output.args[0][returned:]
    return {node.name for node in results if isinstance(node, Node) and node.op == "placeholder"}


def _buffers(joint: GraphModule, returned: int) -> set[str]:
    """Names of the inputs that have no gradient, such as running means, which the forward graph may
    write: what is computed again must not read them."""
    (output,) = (node for node in joint.graph.nodes if node.op == "output")
    primals = (node for node in joint.graph.nodes if node.op == "placeholder")
    gradients = output.args[0][returned:]  # one for each input, None where there is none
    return {node.name for node, gradient in zip(primals, gradients) if gradient is None}


def _divided(joint: GraphModule, inputs: Any, **named: Any) -> tuple[GraphModule, GraphModule]:
    merge_duplicates(joint, named["num_fwd_outputs"])
    with config.patch(cse=False):
        return min_cut_rematerialization_partition(joint, inputs, **named)


class BoundedPartition:
    """A partition function of AOTAutograd that saves at most half of `memory`, where that is possible;
    the other half is for what kernels leave one another. `left` is what plans may use beside what is
    saved, once graphs were divided."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self.left = memory

    def __call__(self, joint: GraphModule, inputs: Any, **named: Any) -> tuple[GraphModule, GraphModule]:
        returned = named["num_fwd_outputs"]
        fewest = None
        read_only: set[str] = set()
        for share in _SHARES:
            part = GraphModule(joint, copy.deepcopy(joint.graph))
            with config.patch(activation_memory_budget=share):
                forward, backward = _divided(part, inputs, **named)
            if share == _SHARES[0]:
                read_only = _buffers(joint, returned) - _saved_inputs(forward, returned)
                _keep_what_reads(read_only, joint)
            elif _saved_inputs(forward, returned) & read_only:
                continue
            saved = saved_bytes(forward, returned)
            if fewest is None or saved < fewest[0]:
                fewest = saved, forward, backward
            if 2 * saved <= self._memory:
                break
        assert fewest is not None
        self.left = max(1, self._memory - fewest[0])
        return fewest[1], fewest[2]


def _keep_what_reads(inputs: set[str], joint: GraphModule) -> None:
    for node in joint.graph.nodes:
        if any(one.name in inputs for one in node.all_input_nodes):
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _is_sum_of_products(node: Node) -> bool:
    product = node.args[0] if node.args else None
    return (
        node.target is torch.ops.aten.sum.dim_IntList
        and isinstance(product, Node)
        and product.target is torch.ops.aten.mul.Tensor
    )


def saving_products(
    joint: GraphModule, inputs: Any, **named: Any
) -> tuple[GraphModule, GraphModule]:
    """The minimum cut, which saves sums of products where a backward graph would compute them again. To
    torch they are elementwise operators and reductions, which cost nothing beside others; a plan
    multiplies them in a kernel of their own."""
    for node in joint.graph.nodes:
        if _is_sum_of_products(node) and node.meta.get("recompute") is None:
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return _divided(joint, inputs, **named)


def partition_for(options: dict[str, Any]) -> Partition:
    """The partition function of the options, which may bound memory."""
    memory = options.get("memory", 0)
    return BoundedPartition(memory) if memory else saving_products
