"""Logs of trainings and validations, which `lfarm report` shows.

>>> with lfarm.TrainingLog("run.jsonl", "my model") as log:
...     for step in range(steps):
...         log.values(step, {"loss": train(step), "error": away()})
...     log.map("gates", model.gates, step, rows="stage", columns="butterfly")
...     log.parts(model, optimiser)

    lfarm report import run.jsonl --db run.db && lfarm report --db run.db -o run.html

A log is a file of one JSON object a line (docs/measuring.md), to which further ones may be added. Lines
are on their way to the disk when a method returns, so that a run that dies leaves what it had.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import time
from typing import Any, Callable, Iterable, Mapping, Optional, Union

Path = Union[str, "os.PathLike[str]"]

CELLS_MAX = 65_536  # of a map, as `lfarm report import` takes them
TEXT_BYTES_MAX = 256
SIDE = 11  # of a landscape


def _text(text: str) -> str:
    """What an import takes as a text. Raises ValueError for the rest."""
    is_bad = any(ord(c) < 0x20 or ord(c) == 0x7F for c in text)
    if not text or is_bad or len(text.encode()) > TEXT_BYTES_MAX:
        raise ValueError(f"{text!r}: a text is one line of at most {TEXT_BYTES_MAX} bytes")
    return text


def _number(value: Any) -> Optional[float]:
    """Six digits are more than a page shows. None stands for what is not finite."""
    number = float(value)
    return float(f"{number:.6g}") if math.isfinite(number) else None


def _rows(values: Any) -> list[list[Optional[float]]]:
    """A tensor, an array or lists as rows of numbers; a vector is one row."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    nested = values.tolist() if hasattr(values, "tolist") else list(values)
    if not nested or not isinstance(nested[0], (list, tuple)):
        nested = [nested]
    if any(isinstance(entry, (list, tuple)) for row in nested for entry in row):
        raise ValueError("a map has one or two dimensions")
    if len({len(row) for row in nested}) != 1 or not nested[0]:
        raise ValueError("a map's rows are of one length, and not empty")
    if len(nested) * len(nested[0]) > CELLS_MAX:
        raise ValueError(f"a map has at most {CELLS_MAX:,} numbers: log a part or a mean of it")
    return [[_number(entry) for entry in row] for row in nested]


class _Log:
    """A file's end to which lines are added."""

    def __init__(self, file: Path, kind: str, name: str, head: Mapping[str, str]) -> None:
        self._file = open(file, "a", encoding="utf-8")  # noqa: SIM115: close() closes it
        now = datetime.datetime.now(datetime.timezone.utc)
        line = {kind: _text(name), "at": now.strftime("%Y-%m-%dT%H:%M:%SZ")}
        line["machine"] = _text(platform.node() or "unknown")
        self._add({**line, **{word: _text(text) for word, text in head.items() if text}})

    def _add(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Ends the log. It may be called again."""
        self._file.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class TrainingLog(_Log):
    """What a training measures at its steps, and what it ends with.

    `name` tells trainings apart: of logs with the same name, machine and device a report shows the
    latest. `device` and `note` are shown beside it.
    """

    def __init__(self, file: Path, name: str, *, device: str = "", note: str = "") -> None:
        super().__init__(file, "training", name, {"device": device, "note": note})

    def values(self, step: int, values: Mapping[str, Any]) -> None:
        """Numbers at a step, such as {"loss/all": 0.5, "loss/mel": 0.1}: those whose names begin alike,
        up to the '/', are curves of one figure."""
        self._add(
            {"step": step, "values": {_text(name): _number(value) for name, value in values.items()}}
        )

    def map(self, name: str, values: Any, step: int = 0, *, rows: str = "", columns: str = "") -> None:
        """A matrix or a vector at a step, drawn as a heat map: gates, masks, weights. `rows` and `columns`
        say what they count. Vectors of several steps become the rows of one map."""
        line: dict[str, Any] = {"map": _text(name), "step": step}
        line.update({"rows": _text(rows)} if rows else {})
        line.update({"columns": _text(columns)} if columns else {})
        self._add({**line, "values": _rows(values)})

    def part(self, name: str, parameters: int, sizes: Optional[Mapping[str, int]] = None) -> None:
        """A part of the model and its number of parameters. `sizes`: bytes by what they are for, such as
        {"parameters": 4096, "optimiser": 8192}."""
        line: dict[str, Any] = {"part": _text(name), "parameters": parameters}
        self._add({**line, "bytes": dict(sizes)} if sizes else line)

    def parts(self, module: Any, optimiser: Any = None, depth: int = 2) -> None:
        """The parts of a torch module: the parameters whose names begin with the same `depth` words, their
        gradients as far as they are there, buffers, and what a torch optimiser keeps for them."""
        found: dict[str, dict[str, int]] = {}
        counts: dict[str, int] = {}

        def add(name: str, kind: str, tensor: Any, parameters: int = 0) -> None:
            part = ".".join(name.split(".")[:depth])
            counts[part] = counts.get(part, 0) + parameters
            sizes = found.setdefault(part, {})
            sizes[kind] = sizes.get(kind, 0) + tensor.numel() * tensor.element_size()

        for name, parameter in module.named_parameters():
            add(name, "parameters", parameter, parameter.numel())
            if parameter.grad is not None:
                add(name, "gradients", parameter.grad)
            kept = {} if optimiser is None else optimiser.state.get(parameter, {})
            for tensor in kept.values():
                if hasattr(tensor, "numel"):
                    add(name, "optimiser", tensor)
        for name, buffer in module.named_buffers():
            add(name, "buffers", buffer)
        for part, sizes in found.items():
            self.part(part, counts[part], sizes)

    def landscape(
        self,
        name: str,
        loss: Callable[[], Any],
        parameters: Iterable[Any],
        *,
        side: int = SIDE,
        radius: float = 1.0,
        seed: int = 0,
    ) -> None:
        """What `loss()` gives at side x side points around torch parameters, which it reads; they are as
        before when this returns. A point at distance 1 has moved each row of each parameter by as much as
        the row is long, in one of two random directions (Li et al., "Visualizing the loss landscape of
        neural nets", 2018, section 4). Takes side * side calls."""
        at = [radius * (2 * k / (side - 1) - 1) for k in range(side)] if side > 1 else [0.0]
        values = _around(loss, list(parameters), at, seed)
        places = [_number(place) for place in at]
        line = {"landscape": _text(name), "x": "first direction", "y": "second direction"}
        self._add({**line, "at_x": places, "at_y": places, "values": _rows(values)})


def _around(
    loss: Callable[[], Any], parameters: list[Any], at: list[float], seed: int
) -> list[list[float]]:
    """The loss with the parameters moved along two directions: a row for each step along the second."""
    import torch  # type: ignore[import,unused-ignore]

    generator = torch.Generator().manual_seed(seed)

    def direction(parameter: Any) -> Any:
        drawn = torch.randn(parameter.shape, generator=generator).to(parameter)
        # A row of a matrix, a filter of a convolution, the whole of a vector.
        rows = [x.reshape(x.shape[0] if x.dim() > 1 else 1, -1) for x in (parameter, drawn)]
        wanted, got = (torch.linalg.vector_norm(x, dim=1, keepdim=True) for x in rows)
        return (rows[1] * wanted / got.clamp(min=1e-12)).reshape(parameter.shape)

    with torch.no_grad():
        before = [parameter.detach().clone() for parameter in parameters]
        first, second = ([direction(parameter) for parameter in parameters] for _ in range(2))
        try:
            rows: list[list[float]] = []
            for y in at:
                rows.append([])
                for x in at:
                    for parameter, old, a, b in zip(parameters, before, first, second):
                        parameter.copy_(old + x * a + y * b)
                    rows[-1].append(float(loss()))
            return rows
        finally:
            for parameter, old in zip(parameters, before):
                parameter.copy_(old)


class ValidationLog(_Log):
    """How fast and how exact the variants of a model are, beside the teacher that they come from.

    One log is of one device; those of several devices with the same name become one section of a report.
    `teacher` is the variant that the others are held against, batch by batch.
    """

    def __init__(self, file: Path, name: str, *, teacher: str, device: str, note: str = "") -> None:
        head = {"teacher": teacher, "device": device, "note": note}
        super().__init__(file, "validation", name, head)

    def variant(
        self, name: str, batch: int, latency_ms: float, error: float, spread_ms: float = 0.0
    ) -> None:
        """One variant at one batch: the median time of a call, the distance of the times' quartiles, and
        the error against whatever is exact."""
        line = {"variant": _text(name), "batch": batch, "latency_ms": _number(latency_ms)}
        self._add({**line, "spread_ms": _number(spread_ms), "error": _number(error)})

    def measure(
        self, name: str, batch: int, call: Callable[[], Any], error: float, rounds: int = 20
    ) -> None:
        """variant() with the times of `rounds` calls, after one that does not count."""
        call()
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            call()
            times.append(1e3 * (time.perf_counter() - start))
        times.sort()
        spread = times[(3 * rounds) // 4] - times[rounds // 4]
        self.variant(name, batch, times[rounds // 2], error, spread)
