"""Device memory that an application's allocator gives to sessions."""

from __future__ import annotations

import atexit
import ctypes
import itertools
import sys
import weakref
from typing import Any, Optional, Protocol

from lfarm import _native


class Allocator(Protocol):
    """What a session asks for memory of a GPU. Any thread may call."""

    def allocate(self, size: int, device: int, stream: int) -> Optional[int]:
        """The address of that many bytes of GPU number `device`, at a multiple of 64; None: there is
        no room. `stream`: the CUDA stream in whose order alone the memory is used."""

    def release(self, address: int, size: int, device: int, stream: int) -> None:
        """Takes back what allocate() gave, which work on the stream may still use."""


class TorchAllocator:
    """torch's caching allocator, so that lfarm and torch do not each keep what the other lacks."""

    def __init__(self) -> None:
        import torch  # type: ignore[import,unused-ignore]

        self._torch: Any = torch  # torch's own functions are partly without types
        self._torch.cuda.init()

    def allocate(self, size: int, device: int, stream: int) -> Optional[int]:
        try:
            address: int = self._torch.cuda.caching_allocator_alloc(size, device, stream)
        except self._torch.cuda.OutOfMemoryError:
            return None
        return address

    def release(self, address: int, size: int, device: int, stream: int) -> None:
        self._torch.cuda.caching_allocator_delete(address)


def default_allocator(device: str) -> Optional[Allocator]:
    """torch's where the application uses torch on GPUs, else none."""
    torch: Any = sys.modules.get("torch")
    if device == "cpu" or torch is None or not torch.cuda.is_available():
        return None
    return TorchAllocator()


class _Registry:
    """The allocators that the library calls, by the number that it knows each by."""

    def __init__(self) -> None:
        self._known: dict[int, Allocator] = {}
        self._numbers = itertools.count(1)
        self._instances: weakref.WeakSet[_native.Handle] = weakref.WeakSet()
        self._functions = (
            _native.Allocate(self._allocate),
            _native.Release(self._release),
            _native.Destroy(self._destroy),
        )
        # The library may call them until the process ends, whatever is left of this module.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._functions))
        atexit.register(self._end)

    def add(self, allocator: Allocator) -> _native.Allocator:
        number = next(self._numbers)
        self._known[number] = allocator
        size = ctypes.sizeof(_native.Allocator)
        return _native.Allocator(size, number, *self._functions)

    def watch(self, instance: _native.Handle) -> None:
        if self._known:
            self._instances.add(instance)

    # A call that fails has no memory; what it raised is printed.
    def _allocate(self, number: int, size: int, device: int, stream: Optional[int]) -> Optional[int]:
        return self._known[number].allocate(size, device, stream or 0)

    def _release(
        self, number: int, address: int, size: int, device: int, stream: Optional[int]
    ) -> None:
        allocator = self._known.get(number)
        if allocator is not None:
            allocator.release(address, size, device, stream or 0)

    def _destroy(self, number: int) -> None:
        self._known.pop(number, None)

    def _end(self) -> None:
        """Ends instances, whose threads may ask for memory, while there is an interpreter to ask.
        What outputs hold goes with the process."""
        for instance in list(self._instances):
            instance.close()
        self._known.clear()


registry = _Registry()
