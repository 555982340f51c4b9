"""Tokens from language models: ids in, ids out."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, Iterable, Optional, Sequence, Union

from lfarm import _native
from lfarm._native import library
from lfarm.model import _SEED_MASK, Instance, Path, _shared_session

Ids = Union[Sequence[int], Sequence[Sequence[int]]]


def _rows(prompt_ids: Any) -> tuple[list[list[int]], bool]:
    """The sequences, and whether a batch was given."""
    ids = prompt_ids.tolist() if hasattr(prompt_ids, "tolist") else list(prompt_ids)
    is_batch = bool(ids) and isinstance(ids[0], (list, tuple))
    rows = [list(map(int, row)) for row in (ids if is_batch else [ids])]
    if len({len(row) for row in rows}) > 1:
        raise ValueError("prompts of one batch have one length")
    return rows, is_batch


def generator(path: Path, **options: Any) -> Instance:
    """An instance for generate(): with one plan for prompts and one for single tokens where the model
    takes any number of them. `options` are Session's."""
    return _shared_session(options).load(path).generator()


def generate(
    model: Union[Path, Instance],
    prompt_ids: Ids,
    tokens: int = 16,
    *,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 0,
    stop: Iterable[int] = (),
    chunk: int = 0,
    start: int = 0,
    on_token: Optional[Callable[[int, int, int], Optional[bool]]] = None,
    **options: Any,
) -> Any:
    """At most `tokens` new token ids after the prompt; for a batch of prompts of one length a list of
    lists.

    model: what generator() gave, or a path, of which an instance is made for this call alone.
    temperature: what logits are divided by before a token is drawn; 0: the greatest is taken.
    top_k, top_p: draw among the most probable tokens alone. seed: of the draws.
    stop: tokens that end a sequence. chunk: tokens of a prompt in one call at most; 0: as many as the
    model takes. start: position of the prompt's first token, after those of earlier calls.
    on_token(sequence, step, token) is called as tokens are chosen; False ends the sequence.
    options: Session's, with a path. Raises lfarm.Error when the model is no language model.
    """
    instance = model if isinstance(model, Instance) else generator(os.fspath(model), **options)
    rows, is_batch = _rows(prompt_ids)
    given = _native.Generation()
    library.lfarm_generation_init(ctypes.byref(given))
    given.tokens, given.temperature, given.top_k, given.top_p = tokens, temperature, top_k, top_p
    given.seed, given.chunk, given.start = seed & _SEED_MASK, chunk, start
    stops = list(stop)
    given.stop = (ctypes.c_int64 * len(stops))(*stops)
    given.stop_count = len(stops)
    flat = [token for row in rows for token in row]
    prompts = (ctypes.c_int64 * len(flat))(*flat)
    results: list[list[int]] = [[] for _ in rows]
    raised: list[BaseException] = []

    def take(_: Any, sequence: int, step: int, token: int) -> int:
        results[sequence].append(token)
        try:
            return 0 if raised or (on_token and on_token(sequence, step, token) is False) else 1
        except BaseException as error:  # goes on where the library has returned
            raised.append(error)
            return 0

    told = _native.TokenCallback(take)
    length = len(rows[0]) if rows else 0
    sizes = (len(rows), length, ctypes.byref(given))
    with instance._turn:
        _native.call("lfarm_generate", instance._handle.pointer, prompts, *sizes, told, None)
    if raised:
        raise raised[0]
    return results if is_batch else results[0]
