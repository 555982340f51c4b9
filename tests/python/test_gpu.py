"""The package on a GPU's memory: if these fail, arrays on the device are copied, or read too early."""

import ctypes
import json

import lfarm
import pytest
from lfarm import _native, tensors

numpy = pytest.importorskip("numpy")

GPU = 2


class Driver:
    """CUDA's driver, as a program without torch has it."""

    def __init__(self):
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError:
            pytest.skip("no CUDA driver here")
        if self.library.cuInit(0) != 0:
            pytest.skip("no GPU here")
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        assert getattr(self.library, name)(*arguments) == 0, name

    def stream(self):
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        return stream.value

    def array(self, values, stream):
        """A copy of NumPy's array on the device, made on that stream, that speaks DLPack."""
        values = numpy.ascontiguousarray(values)
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(values.nbytes, 1)))
        source = ctypes.c_void_p(values.ctypes.data)
        self.call(
            "cuMemcpyHtoDAsync_v2",
            address,
            source,
            ctypes.c_size_t(values.nbytes),
            ctypes.c_void_p(stream),
        )
        tensor, owner = tensors.view(values)
        tensor.data = address.value
        tensor.device = _native.Device(GPU, 0)
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
