"""The package with torch: if these fail, torch.compile(backend="lfarm") computes something else."""

import warnings

import lfarm
import pytest

torch = pytest.importorskip("torch")

from lfarm import compile as lfarm_compile  # noqa: E402: needs torch
from lfarm.graphs import Program  # noqa: E402
from lfarm.premises import Premises  # noqa: E402

BUDGET = {"budget_candidates": 3, "threads": 1}

# Where the package is installed, its entry point does this.
if "lfarm" not in torch._dynamo.list_backends():
    torch._dynamo.register_backend(lfarm_compile.backend, name="lfarm")


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(5)
    torch._dynamo.reset()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x))) + x


def compiled(model, **arguments):
    return torch.compile(model, backend="lfarm", options={"deadline": 0, **BUDGET}, **arguments)


def test_takes_and_gives_torch_tensors(fixture):
    instance = lfarm.load(fixture("mlp") / "model.pt2", deadline=0)
    x = torch.randn(3, 16)
    y = instance(x)
    assert isinstance(y, torch.Tensor)
    torch.testing.assert_close(instance(x.t().contiguous().t()), y)


def test_a_compiled_module_computes_the_same(farm):
    model, x = Mlp(), torch.randn(4, 16)
    ours = compiled(model)
    torch.testing.assert_close(ours(x), model(x))
    torch.testing.assert_close(ours(2 * x), model(2 * x))


def test_sizes_may_change():
    model = Mlp()
    ours = compiled(model, dynamic=True)
    for rows in (4, 7, 2, 33):
        x = torch.randn(rows, 16)
        torch.testing.assert_close(ours(x), model(x))


def test_a_graph_that_needs_a_program_for_each_size_is_left_to_torch(monkeypatch, farm):
    def only_these_rows(self, program):
        at = self.given[0]
        return Premises(((at, 0, self._inputs[at].shape[0]),))

    monkeypatch.setattr(Program, "premises", only_these_rows)
    model = Mlp()
    ours = compiled(model, dynamic=True)
    for rows in (4, 7, 4):
        x = torch.randn(rows, 16)
        torch.testing.assert_close(ours(x), model(x))
    x = torch.randn(2, 16)
    with pytest.warns(UserWarning, match="right for single sizes"):
        torch.testing.assert_close(ours(x), model(x))


def test_new_weights_are_seen():
    model, x = Mlp(), torch.randn(4, 16)
    ours = compiled(model)
    torch.testing.assert_close(ours(x), model(x))
    # Dynamo takes what it has for every module of the kind.
    for _ in range(6):
        other = Mlp()
        torch.testing.assert_close(compiled(other)(x), other(x))
    model.up.weight.mul_(3)
    torch.testing.assert_close(ours(x), model(x))


def test_numbers_may_change(farm):
    def shift(x, by):
        return x + by, by + 1

    ours = compiled(shift, dynamic=True)
    x = torch.randn(5)
    for by in (3, 17, 40):
        y, following = ours(x, by)
        torch.testing.assert_close(y, x + by)
        assert following == by + 1


def test_mutated_inputs_are_written():
    def bump(x, y):
        x.add_(y)
        return x * 2

    x, y = torch.randn(5), torch.randn(5)
    right_x = x.clone()
    right = bump(right_x, y)
    torch.testing.assert_close(compiled(bump)(x, y), right)
    torch.testing.assert_close(x, right_x)


class Cached(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(8))
        self.register_buffer("cache", torch.zeros(6, 8))

    def forward(self, x, position):
        self.cache.index_copy_(0, position, x * self.scale)
        return self.cache.sum(0)


def test_a_static_cache_stays_torchs():
    model, right = Cached(), Cached()
    right.load_state_dict(model.state_dict())
    ours = compiled(model)
    for step in range(4):
        x, position = torch.randn(1, 8), torch.tensor([step])
        torch.testing.assert_close(ours(x, position), right(x, position))
    torch.testing.assert_close(model.cache, right.cache)
    # What somebody else writes there is seen.
    model.cache.zero_(), right.cache.zero_()
    x, position = torch.randn(1, 8), torch.tensor([5])
    torch.testing.assert_close(ours(x, position), right(x, position))


def test_what_it_does_not_know_is_left_to_torch():
    def eigenvalues(x):
        return torch.linalg.eigvals(x).abs().sum() + x

    x = torch.eye(8)
    with pytest.warns(UserWarning, match="lfarm leaves a graph to torch"):
        y = compiled(eigenvalues)(x)
    assert torch.allclose(y, eigenvalues(x))
