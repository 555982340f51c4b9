"""Recurrent layers with dropout between them, one call a layer.

torch decomposes a recurrent layer into its steps (torch._decomp, _rnn_helper) and leaves out what drops
numbers between layers, so that a graph would train without dropout. Here each layer is a call of its own:

>>> y, h = torch._VF.gru(x, h, weights, True, 2, 0.1, True, False, False)
becomes
>>> y, first = torch._VF.gru(x, h[:1], weights[:4], True, 1, 0.0, True, False, False)
>>> y = torch.nn.functional.dropout(y, 0.1)
>>> y, second = torch._VF.gru(y, h[1:], weights[4:], True, 1, 0.0, True, False, False)
>>> h = torch.cat([first, second])
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
from torch.fx import GraphModule

_LAYERS = tuple(getattr(torch._VF, name) for name in ("gru", "lstm", "rnn_relu", "rnn_tanh"))


def _layer_by_layer(operator: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        x: torch.Tensor,
        begin: Any,
        weights: Sequence[torch.Tensor],
        has_biases: bool,
        layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[torch.Tensor, ...]:
        states = begin if isinstance(begin, (tuple, list)) else (begin,)
        rows, each = 1 + bidirectional, len(weights) // layers
        ends = []
        y = x.transpose(0, 1) if batch_first else x  # eager draws in this order
        for layer in range(layers):
            first = [state[rows * layer : rows * (layer + 1)] for state in states]
            own = list(weights[each * layer : each * (layer + 1)])
            given = first[0] if states[0] is begin else tuple(first)
            y, *end = operator(y, given, own, has_biases, 1, 0.0, train, bidirectional, False)
            ends.append(end)
            if layer + 1 < layers:
                y = torch.nn.functional.dropout(y, dropout, train)
        if batch_first:
            y = y.transpose(0, 1)
        return (y, *(torch.cat(parts) for parts in zip(*ends)))

    return run


def with_dropout(graph: GraphModule) -> GraphModule:
    """The graph that Dynamo captured, with a call for each layer where numbers are dropped between them.
    Layers of packed sequences stay as they are."""
    for node in graph.graph.nodes:
        if node.target not in _LAYERS or len(node.args) != 9 or not isinstance(node.args[2], (tuple, list)):
            continue
        _, _, _, _, layers, dropout, train, *_ = node.args
        if layers > 1 and dropout and train:
            node.target = _layer_by_layer(node.target)
    graph.recompile()
    return graph
