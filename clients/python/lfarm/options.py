"""What torch.compile(backend="lfarm") is told: options by name, and torch's modes."""

from __future__ import annotations

import difflib
import inspect
from typing import Any, Mapping, Optional

from lfarm.model import Session

# torch's modes as options. A plan is replayed as one recorded graph on GPUs whatever the mode.
_LONG_SEARCH = {"budget_candidates": 512}
_MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {},
    "max-autotune": _LONG_SEARCH,
    "max-autotune-no-cudagraphs": _LONG_SEARCH,
}

_NAMES = [name for name in inspect.signature(Session.__init__).parameters if name != "self"]


def _unknown(kind: str, name: Any, known: list[str]) -> ValueError:
    near = difflib.get_close_matches(str(name), known, 1)
    advice = f"did you mean {near[0]!r}? " if near else ""
    return ValueError(f"lfarm has no {kind} {name!r}: {advice}known are {', '.join(known)}")


def session_options(options: Optional[Mapping[str, Any]], mode: Optional[str]) -> dict[str, Any]:
    """lfarm.Session's options for torch.compile's two arguments, of which the options go first.
    Raises ValueError that names what is not known.

    >>> session_options({"threads": 1}, "max-autotune")
    {'budget_candidates': 512, 'threads': 1}
    """
    if mode is not None and mode not in _MODES:
        raise _unknown("mode", mode, list(_MODES))
    given = dict(options or {})
    for name in given:
        if name not in _NAMES:
            raise _unknown("option", name, _NAMES)
    return {**_MODES[mode or "default"], **given}
