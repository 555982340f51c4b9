"""torch.compile(backend="lfarm") on a GPU: if these fail, graphs are copied through the host, run on the
wrong stream or device, or compute something else than torch does."""

import warnings

import pytest
from lfarm.model import Instance

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("torch sees no GPU here", allow_module_level=True)

from lfarm import compile as lfarm_compile  # noqa: E402: needs torch

if "lfarm" not in torch._dynamo.list_backends():
    torch._dynamo.register_backend(lfarm_compile.backend, name="lfarm")

OPTIONS = {"deadline": 600, "budget_candidates": 3}


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(5)
    torch._dynamo.reset()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


@pytest.fixture
def calls(monkeypatch):
    """The devices of what each call of an instance was given, and how it was called."""
    made = []
    original = Instance.call_row

    def call_row(self, row, **named):
        made.append(([row.tensors[k].device.type for k in range(len(row))], named))
        return original(self, row, **named)

    monkeypatch.setattr(Instance, "call_row", call_row)
    return made


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(64, 128), torch.nn.Linear(128, 64)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x))) + x


def compiled(model, options=OPTIONS, **arguments):
    return torch.compile(model, backend="lfarm", options=options, **arguments)


def close(ours, right):
    assert ours.device == right.device
    torch.testing.assert_close(ours, right, rtol=1e-3, atol=1e-4)


def test_a_compiled_module_computes_the_same(farm, calls):
    model = Mlp().cuda()
    ours = compiled(model)
    for scale in (1, 2, 3):
        x = scale * torch.randn(4, 64, device="cuda")
        close(ours(x), model(x))
    assert len(calls) == 3, "a plan ran each call"
    for devices, named in calls:
        assert devices == [2], "memory of a GPU"
    assert calls[-1][1]["outputs"] is not None, "outputs are torch's own memory"


def test_calls_go_to_the_current_stream(farm, calls):
    model = Mlp().cuda()
    ours, x = compiled(model), torch.randn(4, 64, device="cuda")
    right = model(x)
    ours(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        late = x.clone()
        for _ in range(50):
            late = late.roll(1, 0)  # work that the call has to come after
        late = late.roll(-50, 0)
        result = ours(late)
    assert calls[-1][1]["stream"] == stream.cuda_stream
    stream.synchronize()
    close(result, right)


def test_what_a_graph_mutates_is_written(farm):
    def bump(x, y):
        x.add_(y)
        return x * 2

    for transposed in (False, True):
        x, y = torch.randn(8, 16, device="cuda"), torch.randn(8, 16, device="cuda")
        if transposed:
            x = x.t().contiguous().t()
        right_x = x.clone()
        right = bump(right_x, y)
        close(compiled(bump)(x, y), right)
        close(x, right_x)


def test_a_capture_takes_calls_in(farm, calls):
    model = Mlp().cuda()
    ours, x = compiled(model), torch.randn(4, 64, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            ours(x)
    torch.cuda.current_stream().wait_stream(stream)
    count = len(calls)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = ours(x) * 2
    assert len(calls) == count + 1
    for _ in range(3):
        x.copy_(torch.randn(4, 64, device="cuda"))
        graph.replay()
        torch.cuda.synchronize()
        close(result, model(x) * 2)


def test_memory_is_torchs(farm, calls):
    model = Mlp().cuda()
    before = torch.cuda.memory_allocated()
    ours = compiled(model, dynamic=True)
    ours(torch.randn(512, 64, device="cuda"))
    assert calls
    assert torch.cuda.memory_allocated() > before, "the arena is not in torch's account"


def test_each_gpu_runs_its_own(farm, calls):
    if torch.cuda.device_count() < 2:
        pytest.skip(f"{torch.cuda.device_count()} GPU here")
    for index in (1, 0):
        model = Mlp().to(f"cuda:{index}")
        x = torch.randn(4, 64, device=f"cuda:{index}")
        torch._dynamo.reset()
        close(compiled(model)(x), model(x))
        assert torch.cuda.current_device() == 0


def test_without_a_plan_torch_goes_on_with_one_warning(tmp_path, calls):
    model = Mlp().cuda()
    options = {"farm": "tcp://127.0.0.1:1", "state": str(tmp_path), "deadline": 5}
    ours, x = compiled(model, options), torch.randn(4, 64, device="cuda")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            torch.testing.assert_close(ours(x), model(x))
    assert [str(one.message) for one in told if "lfarm leaves" in str(one.message)] != []
    assert len([one for one in told if "lfarm leaves" in str(one.message)]) == 1
    assert not calls
