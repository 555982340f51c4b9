"""The package on a GPU's memory: if these fail, arrays on the device are copied, or read too early."""

import concurrent.futures
import ctypes
import gc
import json

import lfarm
import pytest
from lfarm import _native, tensors

numpy = pytest.importorskip("numpy")

GPU = 2


class Driver:
    """CUDA's driver, as a program without torch has it."""

    def __init__(self, device=0):
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError:
            pytest.skip("no CUDA driver here")
        if self.library.cuInit(0) != 0:
            pytest.skip("no GPU here")
        self.device = device
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        self.count = count.value
        if device >= self.count:
            pytest.skip(f"no GPU {device} here, only {self.count}")
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.enter()

    def enter(self):
        self.call("cuCtxSetCurrent", self.context)

    def current(self):
        context = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(context))
        return context.value

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
        return address.value

    def call(self, name, *arguments):
        assert getattr(self.library, name)(*arguments) == 0, name

    def stream(self):
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        return stream.value

    def array(self, values, stream):
        """A copy of NumPy's array on the device, made on that stream, that speaks DLPack."""
        values = numpy.ascontiguousarray(values)
        address = self.allocate(values.nbytes)
        source = ctypes.c_void_p(values.ctypes.data)
        self.call(
            "cuMemcpyHtoDAsync_v2",
            ctypes.c_uint64(address),
            source,
            ctypes.c_size_t(values.nbytes),
            ctypes.c_void_p(stream),
        )
        tensor, owner = tensors.view(values)
        tensor.data = address
        tensor.device = _native.Device(GPU, self.device)
        return Array((owner, values), tensor, stream)

    def numpy(self, output, stream):
        values = numpy.empty(output.shape, output.dtype)
        tensor, _ = tensors.view(output, stream)
        self.call(
            "cuMemcpyDtoHAsync_v2",
            ctypes.c_void_p(values.ctypes.data),
            ctypes.c_uint64(tensor.data),
            ctypes.c_size_t(values.nbytes),
            ctypes.c_void_p(stream),
        )
        self.call("cuStreamSynchronize", ctypes.c_void_p(stream))
        return values


class Array:
    """Another library's array on the device; remembers where it was to be ready."""

    def __init__(self, owner, tensor, stream):
        self._output = tensors.Output(owner, tensor, stream)
        self.asked = []

    def __dlpack_device__(self):
        return self._output.__dlpack_device__()

    def __dlpack__(self, *, stream=None):
        self.asked.append(stream)
        return self._output.__dlpack__(stream=-1)


@pytest.fixture(scope="module")
def driver():
    return Driver()


def parts(folder):
    for part in [folder, *sorted((folder / "steps").glob("*"), key=lambda step: int(step.name))]:
        yield [
            [numpy.load(file) for file in sorted((part / kind).glob("*.npy"))]
            for kind in ("inputs", "outputs")
        ]


@pytest.mark.parametrize("name", ["mlp", "kv_step"])
def test_arrays_on_the_device_stay_there(driver, fixture, name):
    session = lfarm.Session(device="cuda", deadline=0)
    instance = session.load(fixture(name) / "model.pt2").instance()
    tolerance = json.loads((fixture(name) / "meta.json").read_text())
    for number, (inputs, expected) in enumerate(parts(fixture(name))):
        stream = driver.stream() if number % 2 == 0 else None
        used = tensors.DEFAULT_STREAM if stream is None else stream
        arrays = [driver.array(values, used) for values in inputs]
        outputs = instance.call_flat(arrays, stream=stream)
        assert all(array.asked == [used] for array in arrays)
        assert len(outputs) == len(expected)
        for output, right in zip(outputs, expected):
            assert output.__dlpack_device__() == (GPU, 0)
            numpy.testing.assert_allclose(
                driver.numpy(output, used),
                right,
                rtol=tolerance.get("rtol", 1e-4),
                atol=tolerance.get("atol", 1e-5),
            )
            with pytest.raises(BufferError, match="consumer's stream"):
                output.__dlpack__(stream=driver.stream())
            with pytest.raises(AttributeError, match="DLPack"):
                output.__array_interface__


def test_outputs_come_in_no_library_of_their_own(driver, fixture):
    instance = lfarm.Session(device="cuda", deadline=0).load(fixture("mlp") / "model.pt2").instance()
    ((inputs, _),) = parts(fixture("mlp"))
    output = instance(driver.array(inputs[0], tensors.DEFAULT_STREAM))
    assert isinstance(output, tensors.Output)


def test_a_processor_takes_no_arrays_of_a_gpu(driver, fixture):
    instance = lfarm.load(fixture("mlp") / "model.pt2", device="cpu", deadline=0)
    ((inputs, _),) = parts(fixture("mlp"))
    with pytest.raises(lfarm.Error, match="session's device is the CPU"):
        instance(driver.array(inputs[0], tensors.DEFAULT_STREAM))


def test_outputs_go_into_the_callers_arrays(driver, fixture):
    instance = lfarm.Session(device="cuda", deadline=0).load(fixture("mlp") / "model.pt2").instance()
    ((inputs, expected),) = parts(fixture("mlp"))
    stream = driver.stream()
    given = [driver.array(values, stream) for values in inputs]
    outputs = [driver.array(numpy.zeros_like(values), stream) for values in expected]
    written = instance.call_flat(given, stream=stream, outputs=outputs)
    for output, mine, right in zip(written, outputs, expected):
        assert output._tensor.data == mine._output._tensor.data
        numpy.testing.assert_allclose(driver.numpy(mine._output, stream), right, rtol=1e-4, atol=1e-5)
    with pytest.raises(lfarm.Error, match=r"the model returns 1 values, not 0"):
        instance.call_flat(given, stream=stream, outputs=[])


class Ledger:
    """An application's allocator, which keeps account."""

    def __init__(self, driver):
        self.driver, self.out, self.given, self.room = driver, {}, 0, 1 << 30

    def allocate(self, size, device, stream):
        assert device == self.driver.device and stream != 0
        assert self.driver.current() == self.driver.context.value
        if size > self.room:
            return None
        address = self.driver.allocate(size)
        self.out[address] = size, stream
        self.given += 1
        return address

    def release(self, address, size, device, stream):
        assert self.out.pop(address) == (size, stream)
        self.driver.call("cuMemFree_v2", ctypes.c_uint64(address))


def test_memory_comes_from_the_applications_allocator(driver, fixture):
    ledger = Ledger(driver)
    session = lfarm.Session(device="cuda", deadline=0, allocator=ledger)
    instance = session.load(fixture("mlp") / "model.pt2").instance()
    ((inputs, expected),) = parts(fixture("mlp"))
    given = [driver.array(values, tensors.DEFAULT_STREAM) for values in inputs]
    outputs = instance.call_flat(given)
    assert {output._tensor.data for output in outputs} <= ledger.out.keys()
    numpy.testing.assert_allclose(
        driver.numpy(outputs[0], tensors.DEFAULT_STREAM), expected[0], rtol=1e-4, atol=1e-5
    )
    ledger.room = 0
    with pytest.raises(lfarm.Error, match=r"no room for \d+ bytes of device memory"):
        instance.call_flat(given)
    del outputs, instance, session
    gc.collect()
    assert ledger.given > 0 and not ledger.out


def test_every_gpu_has_sessions_of_its_own(driver, fixture):
    second = Driver(1)
    ((inputs, expected),) = parts(fixture("mlp"))
    instances = [
        lfarm.load(fixture("mlp") / "model.pt2", device=f"cuda:{each.device}", deadline=0)
        for each in (driver, second)
    ]

    def run(here, instance):
        here.enter()
        for _ in range(5):
            stream = here.stream()
            output = instance.call_flat([here.array(inputs[0], stream)], stream=stream)[0]
            assert output.__dlpack_device__() == (GPU, here.device)
            result = here.numpy(output, stream)
            assert here.current() == here.context.value
            numpy.testing.assert_allclose(result, expected[0], rtol=1e-4, atol=1e-5)

    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(run, *each) for each in zip((driver, second), instances)]:
            done.result()
    second.enter()
    elsewhere = second.array(inputs[0], tensors.DEFAULT_STREAM)
    driver.enter()
    with pytest.raises(lfarm.Error, match="input 0 lies on GPU 1, but the session runs on GPU 0"):
        instances[0].call_flat([elsewhere])


def test_a_gpu_that_is_not_there_is_named(driver):
    with pytest.raises(lfarm.Error, match=f"there is no CUDA device 77, only {driver.count}$"):
        lfarm.Session(device="cuda:77")
