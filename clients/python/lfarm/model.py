"""Sessions, models and their instances."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import threading
import time
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

from lfarm import _native, tensors
from lfarm._native import Handle, library
from lfarm.memory import Allocator, default_allocator, registry
from lfarm.profile import Profile

Path = Union[str, "os.PathLike[str]"]

_Described = Union[tensors.Views, tensors.Row]

_WAIT_SLICE = 0.1  # seconds
_SEED_MASK = (1 << 64) - 1


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a farm found for a model.

    `best_ns` is one run as the farm measured it, `baseline_ns` one of the plain program beside it.
    `standing`: "final"; "interim" while its search goes on; "neighbour" where it was chosen on another
    kind of machine. `speedup`: the plain plan's time over this one's, measured in turns, within the
    bounds of a 95 % confidence interval; 0 where that is not known. `newer`: the id of a plan that
    calls change over to once it is loaded.
    """

    id: str
    graph_hash: str
    target: str
    farm: str
    best_ns: int
    baseline_ns: int
    candidates: int
    created_ns: int
    standing: str = "final"
    speedup: float = 0
    speedup_low: float = 0
    speedup_high: float = 0
    newer: Optional[str] = None


class Session:
    """Where plans come from and what they run on. Any thread may use it.

    farm: endpoint, as "tcp://host:7171"; None: $LFARM_FARM, else the farm that runs on this machine.
    farm_key, keys, trust: who the farm is and who we are, for farms on other machines.
    state: directory of keys and cached plans.
    device: "auto", "cpu", "cuda" for the first GPU, or "cuda:1" for the second.
    allocator: of the GPU's memory (lfarm.memory.Allocator); None: torch's caching allocator where
    torch is loaded and sees a GPU, else the CUDA driver.
    numerics: "strict", or "relaxed", which holds while all values are finite.
    threads: of this machine, that share one call; 0: all.
    deadline: seconds that a new instance waits for its plan.
    cache_bytes: bound on cached plans on disk; 0: none.
    budget_candidates, budget_seconds: of a search, where the farm has no plan yet.
    sizes: parts of a model's sizes that have plans of their own, as "s0=1;s0=2..128".
    memory: bytes that a call may take for values between kernels and scratch areas, which plans keep by
    computing some values again; 0: as many as the fastest plan needs.
    keep_searches: whether the farm's searches for this session go on when it has ended.
    Raises lfarm.Error when an option is not one.
    """

    def __init__(
        self,
        *,
        farm: Optional[str] = None,
        farm_key: Optional[str] = None,
        keys: Optional[Path] = None,
        trust: Optional[str] = None,
        state: Optional[Path] = None,
        device: str = "auto",
        numerics: str = "strict",
        threads: int = 0,
        deadline: Optional[float] = None,
        cache_bytes: Optional[int] = None,
        budget_candidates: int = 0,
        budget_seconds: float = 0,
        sizes: Optional[str] = None,
        memory: int = 0,
        keep_searches: bool = False,
        allocator: Optional[Allocator] = None,
    ) -> None:
        options = _native.Options()
        library.lfarm_options_init(ctypes.byref(options))
        texts: dict[str, Optional[Path]] = {
            "farm": farm,
            "farm_key": farm_key,
            "keys": keys,
            "trust": trust,
            "state": state,
            "device": device,
            "numerics": f"{numerics},memory={memory}" if memory else numerics,
            "sizes": sizes,
        }
        for name, text in texts.items():
            if text is not None:
                setattr(options, name, os.fsencode(text))
        options.threads = threads
        if deadline is not None:
            options.deadline_ms = round(deadline * 1000)
        if cache_bytes is not None:
            options.cache_bytes = cache_bytes
        options.budget_candidates = budget_candidates
        options.budget_ms = round(budget_seconds * 1000)
        used = allocator or default_allocator(device)
        hook = None if used is None else ctypes.pointer(registry.add(used))
        pointer = ctypes.c_void_p()
        _native.call("lfarm_session_open_with", ctypes.byref(options), hook, ctypes.byref(pointer))
        self._handle = Handle(pointer, "lfarm_session_free")
        library.lfarm_session_keep_searches(pointer, int(keep_searches))

    def load(self, path: Path) -> "Model":
        """The model that torch.export.save() wrote to `path`."""
        pointer = ctypes.c_void_p()
        _native.call(
            "lfarm_model_load", self._handle.pointer, os.fsencode(path), ctypes.byref(pointer)
        )
        return Model(Handle(pointer, "lfarm_model_free"))

    def find(self, graph_hash: str, signature: Optional[Path] = None) -> "Model":
        """The model of a graph whose plan the farm, or this machine's disk, has. Weights are bound to
        it before the first instance: by the names that `signature` gives, which `lfarm print --stage
        signature` wrote, else by their positions among the graph's inputs."""
        pointer = ctypes.c_void_p()
        _native.call(
            "lfarm_model_find",
            self._handle.pointer,
            graph_hash.encode(),
            None if signature is None else os.fsencode(signature),
            ctypes.byref(pointer),
        )
        return Model(Handle(pointer, "lfarm_model_free"))


class Model:
    """An exported program with its weights, of which any number of instances may run."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._bound: dict[str, list[Any]] = {}  # arrays whose memory the library uses

    def bind(self, weights: Mapping[str, Any]) -> None:
        """Arrays for the tensors of these names, in instances that are made from now on. They are
        used where they lie as far as the device can, and must not change."""
        for name, array in weights.items():
            stream = tensors.DEFAULT_STREAM if tensors.is_on_gpu(array) else None
            tensor, owner = tensors.view(array, stream)
            _native.call(
                "lfarm_model_bind", self._handle.pointer, name.encode(), ctypes.byref(tensor)
            )
            self._bound.setdefault(name, []).append((owner, array))

    def bind_file(self, path: Path) -> None:
        """The same for all tensors of a .safetensors or .pt2 file that the model has."""
        _native.call("lfarm_model_bind_file", self._handle.pointer, os.fsencode(path))

    @property
    def graph_hash(self) -> str:
        """Stands for what the model computes, whatever its weights' values."""
        digits: bytes = library.lfarm_model_graph_hash(self._handle.pointer)
        return digits.decode()

    def instance(self) -> "Instance":
        """A running copy with a state of its own. Waits for the plan up to the session's deadline."""
        pointer = ctypes.c_void_p()
        _native.call("lfarm_instance_create", self._handle.pointer, ctypes.byref(pointer))
        return Instance(Handle(pointer, "lfarm_instance_free"), self)


    def generator(self) -> "Instance":
        """The same for lfarm.generate()."""
        pointer = ctypes.c_void_p()
        _native.call("lfarm_generator_create", self._handle.pointer, ctypes.byref(pointer))
        return Instance(Handle(pointer, "lfarm_instance_free"), self)


class Instance:
    """One running copy of a model. Calls of several threads take turns."""

    def __init__(self, handle: Handle, model: Model) -> None:
        self._handle = handle
        self.model = model
        self._turn = threading.Lock()
        registry.watch(handle)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """One call. Arrays may stand in lists, tuples and dicts, in the order of the exported model;
        what is no array is passed over. Arrays that the model mutates are written.

        Returns the output, or a tuple of them, as arrays of the inputs' library.
        """
        arrays = tensors.flatten([*arguments, *named.values()])
        results = self.call_flat(arrays)
        values = [tensors.like(output, arrays) for output in results]
        return values[0] if len(values) == 1 else tuple(values)

    def call_flat(
        self,
        arrays: list[Any],
        *,
        stream: Optional[int] = None,
        outputs: Optional[list[Any]] = None,
    ) -> list[Optional[tensors.Output]]:
        """The same for a flat list, whose outputs are left as they are.

        Of arrays on the GPU the outputs lie there, too, and the call is put on `stream`, a CUDA
        stream's number, without waiting for it; None: the default stream. `outputs`: arrays on the
        session's device that the values are written to, None where the model returns None.

        A stream that is being captured gets the call into its graph. A call of the same sizes has to
        come before, and `outputs` have to be given.
        """
        on_gpu = stream is not None or any(map(tensors.is_on_gpu, arrays))
        used = tensors.DEFAULT_STREAM if on_gpu and stream is None else stream
        into = None if outputs is None else tensors.Views(outputs, used)
        return self._run(tensors.Views(arrays, used), used, into)

    def call_row(
        self,
        arrays: tensors.Row,
        *,
        stream: Optional[int] = None,
        outputs: Optional[tensors.Row] = None,
    ) -> list[Optional[tensors.Output]]:
        """The same for torch tensors that were described before; `stream` has to be given where they
        lie on the GPU. Returns nothing where `outputs` are given."""
        return self._run(arrays, stream, outputs)

    def _run(
        self, arrays: _Described, stream: Optional[int], into: Optional[_Described]
    ) -> list[Optional[tensors.Output]]:
        results = Handle(ctypes.c_void_p(), "lfarm_outputs_free")
        given = (arrays.tensors, len(arrays), ctypes.byref(results.pointer))
        with self._turn:
            if into is not None:
                wrapped = (into.tensors, len(into), ctypes.byref(results.pointer))
                _native.call("lfarm_outputs_wrap", self._handle.pointer, *wrapped)
            if stream is not None or into is not None:
                _native.call("lfarm_instance_run_on", self._handle.pointer, stream, *given)
            else:
                _native.call("lfarm_instance_run", self._handle.pointer, *given)
        if isinstance(into, tensors.Row):
            return []
        return tensors.outputs_of(results, stream)

    def state(self, name: str) -> tensors.Output:
        """A copy of a state, such as a parameter that the model trains, as the last call left it.
        Raises lfarm.Error where the model has no state of this name."""
        content = Handle(ctypes.c_void_p(), "lfarm_outputs_free")
        with self._turn:
            _native.call(
                "lfarm_instance_state",
                self._handle.pointer,
                name.encode(),
                ctypes.byref(content.pointer),
            )
        (output,) = tensors.outputs_of(content, None)
        assert output is not None
        return output

    def set_state(self, name: str, array: Any) -> None:
        """Gives a state another content, which is copied, for the next call to begin with."""
        tensor, _owner = tensors.view(array)
        with self._turn:
            _native.call(
                "lfarm_instance_set_state", self._handle.pointer, name.encode(), ctypes.byref(tensor)
            )

    def seed(self, seed: int) -> None:
        """Random numbers of later calls begin with the seed's first ones, on any device and by any
        plan the same; a new instance has the seed 0. Raises lfarm.Error when the model draws none.
        """
        with self._turn:
            _native.call("lfarm_instance_seed", self._handle.pointer, seed & _SEED_MASK)

    def donate(self, inputs: Sequence[int]) -> None:
        """Permits later calls to write the memory of these inputs, by their positions, once they need
        them no more, so that a call takes less memory: what they hold after a call is undefined. No
        other input of a call may have their memory."""
        positions = (ctypes.c_size_t * len(inputs))(*inputs)
        with self._turn:
            _native.call("lfarm_instance_donate", self._handle.pointer, positions, len(inputs))

    @contextlib.contextmanager
    def profile(self) -> Iterator[Profile]:
        """Tells where the time of the calls in a `with` block went, whoever makes them:

        >>> with model.profile() as profile:
        ...     model(x)
        >>> profile.save("trace.json")
        """
        profile = Profile()
        told = _native.Profiler(lambda _, call: profile._add(call.contents))
        with self._turn:
            library.lfarm_instance_set_profiler(self._handle.pointer, told, None)
        try:
            yield profile
        finally:
            with self._turn:
                nobody = ctypes.cast(ctypes.c_void_p(), _native.Profiler)
                library.lfarm_instance_set_profiler(self._handle.pointer, nobody, None)

    def has_plan(self) -> bool:
        """Whether calls run a plan now, to which they change over where one has come. Raises
        lfarm.Error once it is known that something is in the way."""
        with self._turn:
            if library.lfarm_instance_plan(self._handle.pointer, None):
                return True
            try:
                _native.call("lfarm_instance_wait", self._handle.pointer, 0)
            except _native.Error as error:
                if error.status != _native.TIMED_OUT:
                    raise
                return False
            return True

    @property
    def plan(self) -> Optional[Plan]:
        """The plan that calls run; None while the interpreter computes them."""
        info = _native.PlanInfo()
        info.size = ctypes.sizeof(info)
        with self._turn:
            if not library.lfarm_instance_plan(self._handle.pointer, ctypes.byref(info)):
                return None
            return Plan(
                info.id.decode(),
                self.model.graph_hash,
                info.target.decode(),
                info.farm.decode(),
                info.best_ns,
                info.baseline_ns,
                info.candidates,
                info.created_ns,
                (info.standing or b"final").decode(),
                info.speedup,
                info.speedup_low,
                info.speedup_high,
                info.newer.decode() if info.newer else None,
            )

    def wait(self, timeout: float) -> Plan:
        """Waits until calls run a plan, for that many seconds. Raises lfarm.Error without one.

        Calls of other threads go on meanwhile.
        """
        end = time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            try:
                with self._turn:
                    slice_ms = round(1000 * max(0.0, min(left, _WAIT_SLICE)))
                    _native.call("lfarm_instance_wait", self._handle.pointer, slice_ms)
            except _native.Error as error:
                if left <= 0 or error.status != _native.TIMED_OUT:
                    raise
                continue
            plan = self.plan
            assert plan is not None
            return plan


_sessions: dict[Any, Session] = {}
_sessions_lock = threading.Lock()


def _shared_session(options: dict[str, Any]) -> Session:
    key = (tuple(sorted(options.items())), os.environ.get("LFARM_FARM"), os.environ.get("LFARM_STATE"))
    with _sessions_lock:
        if key not in _sessions:
            _sessions[key] = Session(**options)
        return _sessions[key]


def load(path: Path, **options: Any) -> Instance:
    """An instance of the model at `path`. `options` are Session's; equal ones share a session."""
    return _shared_session(options).load(path).instance()


def submit(path: Path, timeout: float = 600, **options: Any) -> Plan:
    """Has the farm look for the model's plan and waits for it, for that many seconds."""
    return load(path, **{"deadline": 0, **options}).wait(timeout)
