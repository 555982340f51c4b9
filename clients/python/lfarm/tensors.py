"""Arrays of other libraries as the library's tensors, and its outputs as theirs, without copies."""

from __future__ import annotations

import ctypes
from typing import Any, Iterable, Optional

from lfarm._native import Device, DType, Handle, Tensor, library

_KINDS = {"b": 6, "i": 0, "u": 1, "f": 2, "c": 5}
_HOST = 1
_GPU = 2

# CUDA's default stream, by the number that DLPack and the driver know it by.
DEFAULT_STREAM = 1


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
    """Whether the value is one of the arrays that a model takes."""
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


def is_on_gpu(array: Any) -> bool:
    """Whether the array lies in a GPU's memory."""
    if hasattr(array, "__array_interface__") or not hasattr(array, "__dlpack_device__"):
        return False
    return int(array.__dlpack_device__()[0]) == _GPU


def view(array: Any, stream: Optional[int] = None) -> tuple[Tensor, Any]:
    """The array's memory as a tensor, and what keeps it alive meanwhile.

    `stream`: where an array on the GPU is to be ready.
    """
    interface = getattr(array, "__array_interface__", None)
    if interface is not None:
        return _view_of_interface(interface, array)
    if getattr(array, "requires_grad", False):
        array = array.detach()
    capsule = array.__dlpack__(stream=stream) if is_on_gpu(array) else array.__dlpack__()
    managed = ctypes.cast(
        _api.PyCapsule_GetPointer(capsule, b"dltensor"), ctypes.POINTER(_Managed)
    )
    return managed.contents.tensor, capsule


class Views:
    """Arrays as the row of tensors that a call takes. None among them is a tensor of nothing."""

    def __init__(self, arrays: list[Any], stream: Optional[int]) -> None:
        views = [(Tensor(), None) if array is None else view(array, stream) for array in arrays]
        self._owners = [owner for _, owner in views]
        self.tensors = (Tensor * len(views))(*(tensor for tensor, _ in views))

    def __len__(self) -> int:
        return len(self._owners)


class Row:
    """torch tensors as the row of tensors that calls take, one call after another: only addresses are
    written anew while sizes and strides stay. Of one device and one type each, in every call. None
    among them is a tensor of nothing.
    """

    def __init__(self) -> None:
        self.tensors: Any = None
        self._known: list[Any] = []

    def __len__(self) -> int:
        return len(self._known)

    def fill(self, arrays: list[Any]) -> None:
        """Describes the tensors, whose memory the caller keeps until the call is done."""
        if len(arrays) != len(self._known):
            self.tensors = (Tensor * len(arrays))()
            self._known = [None] * len(arrays)
        for index, array in enumerate(arrays):
            if array is None:
                continue
            known = self._known[index]
            if known is None or known[0] != array.shape or known[1] != array.stride():
                self._describe(index, array)
            self.tensors[index].data = array.data_ptr()

    def _describe(self, index: int, array: Any) -> None:
        described, _owner = view(array, -1 if is_on_gpu(array) else None)
        lengths = ctypes.c_int64 * described.ndim
        shape, strides = lengths(*array.shape), lengths(*array.stride())
        self._known[index] = (array.shape, array.stride(), shape, strides)
        self.tensors[index] = Tensor(
            0, described.device, described.ndim, described.dtype, shape, strides, 0
        )


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
    """One tensor that a call returned. NumPy, torch and whatever speaks DLPack take it as it is.

    On a GPU its content is ready on the call's stream. It must not go before that stream, or what
    was put there later, is done with it.
    """

    def __init__(self, outputs: Handle, tensor: Tensor, stream: Optional[int]) -> None:
        self._outputs = outputs  # owns the memory
        self._tensor = tensor
        self._stream = stream

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes, outermost first."""
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
        """For NumPy; only in host memory."""
        if self.dtype == "bfloat16":
            raise AttributeError("NumPy has no bfloat16; take the tensor through DLPack")
        if self._tensor.device.type != _HOST:
            raise AttributeError("the tensor lies on a GPU; take it through DLPack")
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": ("|" if self._tensor.dtype.bits == 8 else "<") + self.dtype,
            "data": (self._tensor.data or 0, False),
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        """1: host memory, 2: a GPU; and which of them."""
        return self._tensor.device.type, self._tensor.device.id

    def __dlpack__(self, *, stream: Optional[int] = None, **_: Any) -> Any:
        """A capsule for a consumer that uses `stream`, which has to be the call's; -1: whatever."""
        if self._tensor.device.type == _GPU and stream != -1:
            if (DEFAULT_STREAM if stream is None else stream) != self._stream:
                raise BufferError(
                    f"the output is ready on stream {self._stream}, not on {stream}: "
                    "run the call on the consumer's stream"
                )
        managed = _Managed(self._tensor, None, _release)
        address = ctypes.addressof(managed)
        _lent[address] = (self, managed)
        return _api.PyCapsule_New(address, b"dltensor", ctypes.cast(_capsule_end, ctypes.c_void_p))


# What consumers of capsules hold, by the address they know it by.
_lent: dict[int, Any] = {}


# Consumers may call the next two while the interpreter ends, when this module has lost its names: they
# find what they need among their parameters.
@_Deleter  # type: ignore[misc,untyped-decorator]
def _release(managed: Any, take: Any = _lent.pop, address_of: Any = ctypes.addressof) -> None:
    take(address_of(managed.contents), None)


@_CapsuleEnd  # type: ignore[misc,untyped-decorator]
def _capsule_end(
    capsule: int,
    is_valid: Any = _api.PyCapsule_IsValid,
    pointer_of: Any = _raw_pointer,
    take: Any = _lent.pop,
) -> None:
    # A capsule that was taken bears another name, and its taker releases it.
    if is_valid(capsule, b"dltensor"):
        take(pointer_of(capsule, b"dltensor"), None)


for _function in (_release, _capsule_end):  # whose code is to stay, too
    _api.Py_IncRef(ctypes.py_object(_function))


def outputs_of(handle: Handle, stream: Optional[int]) -> list[Optional[Output]]:
    """What a call on `stream` returned."""
    found: list[Optional[Output]] = []
    for index in range(library.lfarm_outputs_count(handle.pointer)):
        tensor = library.lfarm_outputs_get(handle.pointer, index)
        found.append(Output(handle, tensor.contents, stream) if tensor else None)
    return found


def to_torch(output: Output) -> Any:
    """The output as a torch tensor. On a GPU torch's current stream there has to be the call's."""
    import torch  # type: ignore[import,unused-ignore]

    return torch.from_dlpack(output)  # type: ignore[attr-defined,unused-ignore]


def like(output: Optional[Output], arrays: list[Any]) -> Any:
    """The output as an array of the library that most inputs come from."""
    if output is None:
        return None
    modules = {type(array).__module__.split(".")[0] for array in arrays}
    if "torch" in modules:
        return to_torch(output)
    if output.dtype == "bfloat16" or output.__dlpack_device__()[0] != _HOST:
        return output
    try:
        import numpy
    except ImportError:
        return output
    return numpy.asarray(output)
