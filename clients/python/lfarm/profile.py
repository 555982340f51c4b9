"""Where the time of calls went, kernel by kernel."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any, Union

from lfarm import _native


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One kernel's part of a call.

    `id` stands for what it computes and how; `bytes` is what it reads and writes, each buffer once.
    Kernels that ran when weights were bound take no time. `modules` are those whose weights it
    reads, "layers.*.mlp.up_proj", and `sources` the lines of the model that read them,
    "model.py:174"; both are empty where it reads none.
    """

    name: str
    id: str
    time_ns: int
    bytes: int
    modules: str = ""
    sources: str = ""


@dataclasses.dataclass(frozen=True)
class Call:
    """One call; without kernels it was computed by the interpreter."""

    start_ns: int
    wall_ns: int
    kernels: tuple[Kernel, ...]


class Profile:
    """The calls that were made while it was open. See Instance.profile()."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def _add(self, told: _native.CallProfile) -> None:
        kernels = []
        for k in range(told.kernel_count):
            entry, origin = told.kernels[k], told.origins[k]
            modules, sources = origin.modules.decode(), origin.sources.decode()
            name, id = entry.name.decode(), entry.id.decode()
            kernels.append(Kernel(name, id, entry.time_ns, entry.bytes, modules, sources))
        self.calls.append(Call(told.start_ns, told.wall_ns, tuple(kernels)))

    def totals(self) -> list[tuple[Kernel, int]]:
        """Each kernel with the sums of its times and bytes, and how often it ran; slowest first."""
        found: dict[Kernel, tuple[int, int, int]] = {}
        for call in self.calls:
            for kernel in call.kernels:
                kind = dataclasses.replace(kernel, time_ns=0, bytes=0)
                time_ns, moved, count = found.get(kind, (0, 0, 0))
                found[kind] = (time_ns + kernel.time_ns, moved + kernel.bytes, count + 1)
        rows = [
            (dataclasses.replace(kind, time_ns=time_ns, bytes=moved), count)
            for kind, (time_ns, moved, count) in found.items()
        ]
        return sorted(rows, key=lambda row: -row[0].time_ns)

    def trace(self) -> dict[str, Any]:
        """The calls as Chrome's trace events. Kernels are drawn one after another from a call's
        begin: how long each took is measured, what lies between them is not."""
        events: list[dict[str, Any]] = []

        def add(name: str, track: int, start_ns: int, time_ns: int, **arguments: Any) -> None:
            events.append(
                {
                    "name": name,
                    "ph": "X",
                    "pid": os.getpid(),
                    "tid": track,
                    "ts": start_ns / 1000,
                    "dur": time_ns / 1000,
                    "args": arguments,
                }
            )

        for call in self.calls:
            add("call", 0, call.start_ns, call.wall_ns)
            at = call.start_ns
            for kernel in call.kernels:
                known = {"modules": kernel.modules, "sources": kernel.sources}
                known = {word: text for word, text in known.items() if text}
                add(kernel.name, 1, at, kernel.time_ns, id=kernel.id, bytes=kernel.bytes, **known)
                at += kernel.time_ns
        return {"traceEvents": events, "displayTimeUnit": "ns"}

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the trace for chrome://tracing, Perfetto and the like."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.trace(), file)
