"""Which inputs of a backward graph a plan may write: tensors that nobody needs any more once the graph has
read them. Values between its kernels then need little memory beside them.

Tensors that were saved for this graph alone are known when it is compiled. Gradients that it is given belong
to it as long as nobody else holds them, which every call looks at: `retain_grad()` and hooks may keep one.
"""

from __future__ import annotations

import sys
from typing import Any, Optional

import torch
from torch.fx import GraphModule, Node


def storage_of(node: Any) -> Optional[int]:
    """Identifies the memory of a node's tensor; None of what is no tensor."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def _uses(values: list[Any], at: int) -> tuple[int, int, int]:
    """How many hold the tensor in Python, the tensor in C++, and its memory."""
    storage = values[at].untyped_storage()
    return (
        sys.getrefcount(values[at]),
        values[at]._use_count(),
        torch._C._storage_Use_Count(storage._cdata),
    )


def _can_count() -> bool:
    return hasattr(torch.Tensor, "_use_count") and hasattr(torch._C, "_storage_Use_Count")


class Donation:
    """`inputs`: the positions of those that may be written; of no graph none."""

    def __init__(self, graph: Optional[GraphModule]) -> None:
        self.inputs: set[int] = set()
        self._gradients: list[int] = []  # among them, those that a caller may hold
        if graph is None:
            return
        nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
        (output,) = (node for node in graph.graph.nodes if node.op == "output")
        storages = [storage_of(node) for node in nodes]
        returned = {storage_of(result) for result in output.args[0]}

        def is_alone(at: int) -> bool:
            storage = storages[at]
            return storage is not None and storages.count(storage) == 1 and storage not in returned

        context = torch._guards.TracingContext.try_get()
        saved = getattr(getattr(context, "fw_metadata", None), "bw_donated_idxs", None) or ()
        # AOTAutograd refuses to run a graph that has any of them twice (retain_graph).
        self.inputs = {at for at in saved if is_alone(at)}
        if _can_count():
            given = [at for at, node in enumerate(nodes) if node.name.startswith("tangents")]
            self._gradients = [at for at in given if is_alone(at)]
            self.inputs.update(self._gradients)
            self._by_one = _uses([torch.empty(1)], 0)

    def copy_what_others_hold(self, values: list[Any]) -> None:
        """Before a call: `values` alone must hold what is written."""
        for at in self._gradients:
            if _uses(values, at) != self._by_one:
                values[at] = values[at].clone()
