"""Arrays of other libraries as the library's tensors, and its outputs as theirs, without copies."""

from __future__ import annotations

import ctypes
from typing import Any, Iterable

from lfarm._native import Device, DType, Handle, Tensor, library

_KINDS = {"b": 6, "i": 0, "u": 1, "f": 2, "c": 5}
_HOST = 1


class _Managed(ctypes.Structure):
    """DLPack's DLManagedTensor."""


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]

_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_CapsuleEnd = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_api.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_raw_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def is_array(value: Any) -> bool:
    return hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__")


def flatten(values: Iterable[Any]) -> list[Any]:
    """The arrays in lists, tuples and dicts, in order; what is no array is left out."""
    found: list[Any] = []
    for value in values:
        if is_array(value):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += flatten(value)
        elif isinstance(value, dict):
            found += flatten(value.values())
    return found


def view(array: Any) -> tuple[Tensor, Any]:
    """The array's memory as a tensor, and what keeps it alive meanwhile."""
    interface = getattr(array, "__array_interface__", None)
    if interface is not None:
        return _view_of_interface(interface, array)
    if getattr(array, "requires_grad", False):
        array = array.detach()
    capsule = array.__dlpack__()
    managed = ctypes.cast(
        _api.PyCapsule_GetPointer(capsule, b"dltensor"), ctypes.POINTER(_Managed)
    )
    return managed.contents.tensor, capsule


def _view_of_interface(interface: dict[str, Any], array: Any) -> tuple[Tensor, Any]:
    text = interface["typestr"]
    size = int(text[2:])
    if text[0] == ">" or text[1] not in _KINDS:
        raise TypeError(f"arrays of type {text} have no place in a model")
    rank = len(interface["shape"])
    shape = (ctypes.c_int64 * rank)(*interface["shape"])
    strides = interface.get("strides")
    steps = None if strides is None else (ctypes.c_int64 * rank)(*(s // size for s in strides))
    tensor = Tensor(
        interface["data"][0],
        Device(_HOST, 0),
        rank,
        DType(_KINDS[text[1]], 8 * size, 1),
        shape,
        steps,
        0,
    )
    return tensor, (array, shape, steps)


class Output:
    """One tensor that a call returned. NumPy, torch and whatever speaks DLPack take it as it is."""

    def __init__(self, outputs: Handle, tensor: Tensor) -> None:
        self._outputs = outputs  # owns the memory
        self._tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._tensor.shape[k] for k in range(self._tensor.ndim))

    @property
    def dtype(self) -> str:
        """As NumPy writes it, such as "f4"; "bfloat16" for what NumPy does not have."""
        dtype = self._tensor.dtype
        if dtype.code == 4:
            return "bfloat16"
        kind = next(kind for kind, code in _KINDS.items() if code == dtype.code)
        return f"{kind}{dtype.bits // 8}"

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self.dtype == "bfloat16":
            raise AttributeError("NumPy has no bfloat16; take the tensor through DLPack")
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": ("|" if self._tensor.dtype.bits == 8 else "<") + self.dtype,
            "data": (self._tensor.data or 0, False),
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return _HOST, 0

    def __dlpack__(self, **_: Any) -> Any:
        managed = _Managed(self._tensor, None, _release)
        address = ctypes.addressof(managed)
        _lent[address] = (self, managed)
        return _api.PyCapsule_New(address, b"dltensor", ctypes.cast(_capsule_end, ctypes.c_void_p))


# What consumers of capsules hold, by the address they know it by.
_lent: dict[int, Any] = {}


@_Deleter
def _release(managed: Any) -> None:
    _lent.pop(ctypes.addressof(managed.contents), None)


@_CapsuleEnd
def _capsule_end(capsule: int) -> None:
    # A capsule that was taken bears another name, and its taker releases it.
    if _api.PyCapsule_IsValid(capsule, b"dltensor"):
        _lent.pop(_raw_pointer(capsule, b"dltensor"), None)


def outputs_of(handle: Handle) -> list[Output | None]:
    found: list[Output | None] = []
    for index in range(library.lfarm_outputs_count(handle.pointer)):
        tensor = library.lfarm_outputs_get(handle.pointer, index)
        found.append(Output(handle, tensor.contents) if tensor else None)
    return found


def like(output: Output | None, arrays: list[Any]) -> Any:
    """The output as an array of the library that most inputs come from."""
    if output is None:
        return None
    modules = {type(array).__module__.split(".")[0] for array in arrays}
    if "torch" in modules:
        import torch

        return torch.from_dlpack(output)
    if output.dtype == "bfloat16":
        return output
    try:
        import numpy
    except ImportError:
        return output
    return numpy.asarray(output)
