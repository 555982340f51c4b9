"""liblfarm's C interface (lfarm.h), as ctypes sees it."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import pathlib
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint64, c_void_p

ABI_VERSION = 1
TIMED_OUT = 6  # of lfarm_status
OUT_OF_RANGE = 7


class Error(RuntimeError):
    """What failed, in one line. `status` is one of lfarm.h's lfarm_status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class OutOfRange(Error, IndexError):
    """An index among a call's inputs is outside of what it addresses."""


class Device(ctypes.Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class DType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Tensor(ctypes.Structure):
    """lfarm_tensor, which has the layout of DLPack's DLTensor."""

    _fields_ = [
        ("data", c_void_p),
        ("device", Device),
        ("ndim", c_int32),
        ("dtype", DType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


Allocate = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_size_t, c_int32, c_void_p)
Release = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_size_t, c_int32, c_void_p)
Destroy = ctypes.CFUNCTYPE(None, c_void_p)


class Allocator(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("context", c_void_p),
        ("allocate", Allocate),
        ("release", Release),
        ("destroy", Destroy),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("farm", c_char_p),
        ("farm_key", c_char_p),
        ("keys", c_char_p),
        ("trust", c_char_p),
        ("state", c_char_p),
        ("device", c_char_p),
        ("numerics", c_char_p),
        ("threads", c_int32),
        ("deadline_ms", c_int64),
        ("cache_bytes", c_uint64),
        ("budget_candidates", c_uint64),
        ("budget_ms", c_uint64),
        ("sizes", c_char_p),
        ("revocations_ms", c_uint64),
    ]


class PlanInfo(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("id", c_char_p),
        ("target", c_char_p),
        ("farm", c_char_p),
        ("best_ns", c_int64),
        ("baseline_ns", c_int64),
        ("candidates", c_int64),
        ("created_ns", c_int64),
        ("standing", c_char_p),
        ("speedup", ctypes.c_double),
        ("speedup_low", ctypes.c_double),
        ("speedup_high", ctypes.c_double),
        ("newer", c_char_p),
    ]


class KernelTime(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("id", c_char_p), ("time_ns", c_int64), ("bytes", c_int64)]


class KernelOrigin(ctypes.Structure):
    _fields_ = [("modules", c_char_p), ("sources", c_char_p)]


class CallProfile(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("start_ns", c_int64),
        ("wall_ns", c_int64),
        ("kernels", POINTER(KernelTime)),
        ("kernel_count", c_size_t),
        ("origins", POINTER(KernelOrigin)),
    ]


class Generation(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("tokens", c_int64),
        ("temperature", ctypes.c_double),
        ("top_k", c_int64),
        ("top_p", ctypes.c_double),
        ("seed", c_uint64),
        ("stop", POINTER(c_int64)),
        ("stop_count", c_size_t),
        ("chunk", c_int64),
        ("start", c_int64),
    ]


TokenCallback = ctypes.CFUNCTYPE(ctypes.c_int, c_void_p, c_size_t, c_int64, c_int64)
Profiler = ctypes.CFUNCTYPE(None, c_void_p, POINTER(CallProfile))


def _open() -> ctypes.CDLL:
    beside = pathlib.Path(__file__).with_name("liblfarm.so.1")
    path = os.environ.get("LFARM_LIBRARY") or (str(beside) if beside.exists() else "liblfarm.so.1")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"cannot load {path}: {error}; set LFARM_LIBRARY to liblfarm.so") from None
    version = library.lfarm_abi_version()
    if version != ABI_VERSION:
        raise ImportError(f"{path} speaks version {version} of the interface, not {ABI_VERSION}")
    return library


library = _open()


def _declare(name: str, result: object, *arguments: object) -> None:
    function = getattr(library, name)
    function.restype = result
    function.argtypes = list(arguments)


_out = POINTER(c_void_p)
_declare("lfarm_error_status", ctypes.c_int, c_void_p)
_declare("lfarm_error_message", c_char_p, c_void_p)
_declare("lfarm_error_free", None, c_void_p)
_declare("lfarm_options_init", None, POINTER(Options))
_declare("lfarm_session_open", ctypes.c_int, POINTER(Options), _out, _out)
_declare("lfarm_session_free", None, c_void_p)
_declare("lfarm_session_keep_searches", None, c_void_p, c_int32)
_declare("lfarm_session_open_with", ctypes.c_int, POINTER(Options), POINTER(Allocator), _out, _out)
_declare("lfarm_model_load", ctypes.c_int, c_void_p, c_char_p, _out, _out)
_declare("lfarm_model_find", ctypes.c_int, c_void_p, c_char_p, c_char_p, _out, _out)
_declare("lfarm_model_bind", ctypes.c_int, c_void_p, c_char_p, POINTER(Tensor), _out)
_declare("lfarm_model_bind_file", ctypes.c_int, c_void_p, c_char_p, _out)
_declare("lfarm_model_free", None, c_void_p)
_declare("lfarm_model_graph_hash", c_char_p, c_void_p)
_declare("lfarm_model_inputs", c_size_t, c_void_p)
_declare("lfarm_model_outputs", c_size_t, c_void_p)
_declare("lfarm_instance_create", ctypes.c_int, c_void_p, _out, _out)
_declare("lfarm_generator_create", ctypes.c_int, c_void_p, _out, _out)
_declare("lfarm_generation_init", None, POINTER(Generation))
_declare(
    "lfarm_generate",
    ctypes.c_int,
    c_void_p,
    POINTER(c_int64),
    c_size_t,
    c_size_t,
    POINTER(Generation),
    TokenCallback,
    c_void_p,
    _out,
)
_declare("lfarm_instance_free", None, c_void_p)
_declare("lfarm_instance_seed", ctypes.c_int, c_void_p, ctypes.c_uint64, _out)
_declare("lfarm_instance_donate", ctypes.c_int, c_void_p, POINTER(c_size_t), c_size_t, _out)
_declare("lfarm_instance_plan", ctypes.c_int, c_void_p, POINTER(PlanInfo))
_declare("lfarm_instance_wait", ctypes.c_int, c_void_p, c_int64, _out)
_declare("lfarm_instance_run", ctypes.c_int, c_void_p, POINTER(Tensor), c_size_t, _out, _out)
_declare(
    "lfarm_instance_run_on", ctypes.c_int, c_void_p, c_void_p, POINTER(Tensor), c_size_t, _out, _out
)
_declare("lfarm_outputs_wrap", ctypes.c_int, c_void_p, POINTER(Tensor), c_size_t, _out, _out)
_declare("lfarm_instance_state", ctypes.c_int, c_void_p, c_char_p, _out, _out)
_declare("lfarm_instance_set_state", ctypes.c_int, c_void_p, c_char_p, POINTER(Tensor), _out)
_declare("lfarm_instance_set_profiler", None, c_void_p, Profiler, c_void_p)
_declare("lfarm_outputs_count", c_size_t, c_void_p)
_declare("lfarm_outputs_get", POINTER(Tensor), c_void_p, c_size_t)
_declare("lfarm_outputs_free", None, c_void_p)


def call(name: str, *arguments: object) -> None:
    """Calls a function that can fail, whose last argument is the error, and raises what it left."""
    error = c_void_p()
    status = getattr(library, name)(*arguments, byref(error))
    if status == 0:
        return
    message = library.lfarm_error_message(error).decode(errors="replace")
    library.lfarm_error_free(error)
    raise (OutOfRange if status == OUT_OF_RANGE else Error)(status, message)


class Handle:
    """An object of the library, freed with this one."""

    _pointer_type = c_void_p  # when the interpreter ends, modules lose their names before objects go

    def __init__(self, pointer: c_void_p, free: str) -> None:
        self.pointer = pointer
        self._free = getattr(library, free)

    def close(self) -> None:
        """Frees the object now."""
        pointer, self.pointer = self.pointer, self._pointer_type()
        if pointer:
            self._free(pointer)

    def __del__(self) -> None:
        self.close()
