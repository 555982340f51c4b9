"""A program that returns a loss, and an update of its parameters, as one program that does a step."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.experimental import _export_forward_backward
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node

from lfarm.steps import KEPT, Update
from lfarm.written_out import names_written, written_out

_STORED = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def _kinds(program: ExportedProgram) -> set[OutputKind]:
    return {spec.kind for spec in program.graph_signature.output_specs}


def _root(node: Node) -> Node:
    """The value whose memory a node's result is."""
    while isinstance(node.target, torch._ops.OpOverload) and node.args:
        returned = node.target._schema.returns
        if not returned or returned[0].alias_info is None or not isinstance(node.args[0], Node):
            break
        node = node.args[0]
    return node


def _written_by_schema(program: ExportedProgram) -> list[str]:
    """Stored tensors into which an operator writes, as the operators' schemas say."""
    signature = program.graph_signature
    stored = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    written: dict[str, None] = {}
    for node in program.graph.nodes:
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        arguments = node.target._schema.arguments
        for argument, given in (*zip(arguments, node.args), *_named(arguments, node.kwargs)):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            for one in given if isinstance(given, (list, tuple)) else (given,):
                name = stored.get(_root(one).name) if isinstance(one, Node) else None
                if name is not None:
                    written[name] = None
    return list(written)


def _named(arguments: Any, given: dict[str, Any]) -> list[tuple[Any, Any]]:
    return [(argument, given[argument.name]) for argument in arguments if argument.name in given]


def states_of(program: ExportedProgram) -> dict[str, str]:
    """What a program that is a step writes, by name. Raises ValueError where it writes nothing."""
    try:
        signature = program.run_decompositions({}).graph_signature
        names = names_written(signature)
    except (NotImplementedError, RuntimeError):  # torch cannot trace its own fused steps
        names = _written_by_schema(program)
    if not names:
        raise ValueError(
            "the program writes none of its parameters: export a step that does, or give an update, "
            "such as lfarm.AdamW(rate=1e-3), for a program that returns a loss"
        )
    return {name: name for name in names}


def _kept_for(update: Update, parameter: torch.Tensor) -> dict[str, torch.Tensor]:
    """What an update keeps for a parameter, as it is before the first step."""
    if hasattr(update, "kept_for"):
        return dict(update.kept_for(parameter))
    return {name: torch.zeros_like(parameter) for name in update.kept}


class _Step(torch.nn.Module):
    """The joint program's graph, and an update of each parameter with its gradient."""

    def __init__(self, joint: ExportedProgram, update: Update) -> None:
        super().__init__()
        self.graph = joint.graph_module
        self._update = update
        self._inputs = joint.graph_signature.input_specs
        self._outputs = joint.graph_signature.output_specs
        stored = {**joint.state_dict, **joint.constants}
        self.names = {}  # of buffers here, by the names that the module has
        for index, spec in enumerate(self._inputs):
            if spec.kind in _STORED:
                self._keep(spec.target, f"stored_{index}", stored[spec.target])
        self.written = {
            spec.target
            for spec in self._outputs
            if spec.kind in (OutputKind.GRADIENT_TO_PARAMETER, OutputKind.BUFFER_MUTATION)
        }
        self._names_kept = {}  # of what is kept for a parameter
        for index, name in enumerate(self._with_gradients()):
            kept_for = _kept_for(update, stored[name])
            self._names_kept[name] = [f"{kept}.{name}" for kept in kept_for]
            for kept, content in kept_for.items():
                self._keep(f"{kept}.{name}", f"{KEPT}{kept}_{index}", content)
            self.written.update(self._names_kept[name])
        self._keep("step", f"{KEPT}step", torch.zeros(()))
        self.written.add("step")

    def _with_gradients(self) -> list[str]:
        kind = OutputKind.GRADIENT_TO_PARAMETER
        return [spec.target for spec in self._outputs if spec.kind == kind]

    def _keep(self, name: str, inner: str, content: torch.Tensor) -> None:
        self.names[name] = inner
        self.register_buffer(inner, content.detach().clone())

    def _kept(self, name: str) -> torch.Tensor:
        return getattr(self, self.names[name])

    def forward(self, *given: torch.Tensor) -> Any:
        *batch, rate = given
        users = iter(batch)
        values = [
            self._kept(spec.target) if spec.kind in _STORED else next(users)
            for spec in self._inputs
        ]
        results = self.graph(*values)
        step = self._kept("step").add_(1)
        returned = []
        for spec, result in zip(self._outputs, results):
            if spec.kind == OutputKind.GRADIENT_TO_PARAMETER:
                kept = [self._kept(name) for name in self._names_kept[spec.target]]
                self._update(self._kept(spec.target), result, kept, step, rate)
            elif spec.kind == OutputKind.BUFFER_MUTATION:
                self._kept(spec.target).copy_(result)
            else:
                returned.append(result)
        return returned[0] if len(returned) == 1 else tuple(returned)


def written(program: ExportedProgram, update: Update) -> tuple[ExportedProgram, dict[str, str]]:
    """The step, and the names of its states by those of the module. Raises ValueError for a program
    that has no gradients and no loss to differentiate."""
    if OutputKind.GRADIENT_TO_PARAMETER not in _kinds(program):
        try:
            program = _export_forward_backward(program)
        except Exception as reason:
            text = str(reason).strip().splitlines()[0]
            raise ValueError(
                f"the program cannot be differentiated: {text}; its first output has to be the loss, "
                "a number that depends on parameters"
            ) from reason
    if program.range_constraints:
        raise ValueError("the program has sizes that may change: export the step with fixed sizes")
    arguments, named = program.example_inputs
    if named:
        raise ValueError(f"the program takes {next(iter(named))!r} by name: export it by position")
    step = _Step(program, update)
    batch = torch.utils._pytree.tree_leaves(arguments)
    with torch.no_grad():
        exported = torch.export.export(step, (*batch, torch.tensor(update.rate)))
    states = {name: inner for name, inner in step.names.items() if name in step.written}
    return written_out(exported), states
