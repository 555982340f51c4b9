"""Makes Dynamo take the lengths of language models' calls as symbols from the first call.

Dynamo compiles a call for its sizes, and once more with symbols when another size comes. In transformers'
`generate()` the length of prompts and the number of cached keys change between calls, so that prompts and
single tokens took two graphs each. When a backend gets the first graph, `expect_others()` records in
Dynamo's profile that other lengths have come before, and restarts the trace. Only calls that are given a
cache of transformers are affected.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Iterable, Optional

import torch

from lfarm.logs import DYNAMO

try:
    from torch._dynamo.exc import TensorifyScalarRestartAnalysis, UnspecializeRestartAnalysis
    from torch._dynamo.pgo import auto_dynamic, get_code_state
    from torch._dynamo.symbolic_convert import InstructionTranslator
except ImportError:  # a PyTorch whose Dynamo has other names: it learns the lengths from later calls
    InstructionTranslator = None
else:

    class _Restart(TensorifyScalarRestartAnalysis, UnspecializeRestartAnalysis):
        """Restarts Dynamo's analysis. Dynamo passes on the first class from a backend, and clears for the
        second what it recorded of the last trace, which may go another way now."""


# The end of the name that Dynamo has for an input.
_INPUT = re.compile(r"\['(\w+)'\](?:\['\w+_attention'\])?$")  # Gemma's masks are a dictionary
_CACHED = re.compile(r"\.layers\[\d+\]\.(keys|values|cumulative_length|cumulative_length_int)$")

# The axis of an input that is as long as the call's tokens.
_TOKENS = {
    "input_ids": 1,
    "inputs_embeds": 1,
    "token_type_ids": 1,
    "position_ids": -1,
    "cache_position": 0,
}


def _lengths(name: str, axes: int, cache_is_static: bool) -> list[int]:
    """The axes of an input that other calls have longer or shorter.

    >>> _lengths("L['kwargs']['input_ids']", 2, False), _lengths("L['cache'].layers[1].keys", 4, False)
    ([1], [2])
    """
    if _CACHED.search(name):
        return [] if cache_is_static else [2]
    found = _INPUT.search(name)
    key = found.group(1) if found else name
    if key == "attention_mask":  # [batch, keys] or [batch, heads, tokens, keys]
        return ([2] if axes == 4 else []) + ([] if cache_is_static else [axes - 1])
    return [_TOKENS[key] % axes] if key in _TOKENS else []


def _cache_of(values: Iterable[Any]) -> Optional[Any]:
    """transformers' cache among a function's arguments, of a decoder alone."""
    module = sys.modules.get("transformers.cache_utils")
    if module is None:
        return None
    for value in values:
        if isinstance(value, dict):
            value = _cache_of(value.values())
        if isinstance(value, module.Cache) and getattr(value, "layers", None):
            return value
    return None


def _record_lengths(names: set[str], cache_is_static: bool) -> int:
    """Records for the inputs of these names that other lengths have come. Returns for how many it is new."""
    changed = 0
    for code in get_code_state().values():
        for name, entry in code.automatic_dynamic.items():
            if name not in names:
                continue
            if isinstance(entry.size, tuple):
                sizes = list(entry.size)
                for axis in _lengths(name, len(sizes), cache_is_static):
                    if sizes[axis] is not auto_dynamic and sizes[axis] > 1:
                        sizes[axis] = auto_dynamic
                changed += tuple(sizes) != entry.size
                entry.size = tuple(sizes)
            elif type(entry.scalar) is int and entry.scalar > 1 and _CACHED.search(name):
                entry.scalar = auto_dynamic
                changed += 1
    return changed


def _no_states(stored: Any) -> torch.Tensor:
    """States of no token for a layer whose traced ones are [batch, heads, length, width]."""
    held = stored.as_proxy().node.meta["example_value"]
    batch, heads, _, width = map(int, held.shape)
    return torch.empty((batch, heads, 0, width), dtype=held.dtype, device=held.device)


def _initialize_layers(effects: Any) -> int:
    """Initializes the layers of a static cache that the traced call initializes, so that a cache that is
    new and one that was reset take one graph. Returns how many there were."""
    count = 0
    for traced, stored in effects.store_attr_mutations.items():
        layer = getattr(traced, "value", None)
        if "keys" not in stored or not hasattr(layer, "max_cache_len") or layer.is_initialized:
            continue
        layer.lazy_initialization(_no_states(stored["keys"]), _no_states(stored["values"]))
        count += 1
    return count


def expect_others() -> None:
    """Called by a backend for a graph that needs no gradients: raises what restarts Dynamo's trace of a
    language model's call, once for each of its lengths. Does nothing where `torch.compile(dynamic=...)`
    says what sizes are."""
    config = torch._dynamo.config
    if InstructionTranslator is None or not (
        config.automatic_dynamic_shapes and config.assume_static_by_default
    ):
        return
    try:
        traced = InstructionTranslator.current_tx()
    except AttributeError:  # a backend that something else than Dynamo calls
        return
    cache = _cache_of(traced.f_locals.values())
    if cache is None:
        return
    names = {guard.name for guard in traced.output.guards}
    changed = _record_lengths(names, cache.is_compileable)
    compile_id = torch._guards.CompileContext.current_compile_id()
    # Later compilations of the function are for those who make new caches: their graph takes all of them.
    if cache.is_compileable and compile_id is not None and compile_id.frame_compile_id == 0:
        changed += _initialize_layers(traced.output.side_effects)
    if changed:
        DYNAMO.info("a language model's call is traced again with symbols for %d lengths", changed)
        raise _Restart(restart_reason="lfarm takes lengths as symbols")
