"""Saved tensors that backward plans may write: if these fail, a plan writes what the caller still has, or
steps take the memory of saved tensors twice."""

import warnings

import pytest
from lfarm.model import Instance

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402: needs torch

from lfarm import compile as lfarm_compile  # noqa: E402

if "lfarm" not in torch._dynamo.list_backends():
    torch._dynamo.register_backend(lfarm_compile.backend, name="lfarm")

OPTIONS = {"deadline": 600, "budget_candidates": 2, "threads": 1}


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(5)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="lfarm leaves a graph to torch")
        yield


class Deep(nn.Module):
    """Layers whose results are saved. The caller gets one of them, and a view of another."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(24, 24) for _ in range(5))

    def forward(self, x):
        values = [x]
        for layer in self.layers:
            values.append(torch.tanh(layer(values[-1])))
        return values[-1], values[2], values[3].t()


def test_what_the_caller_has_is_kept(farm, monkeypatch):
    donated, original = [], Instance.donate

    def donate(self, inputs):
        donated.append(list(inputs))
        original(self, inputs)

    monkeypatch.setattr(Instance, "donate", donate)
    model = Deep()
    ours = torch.compile(model, backend="lfarm", options=OPTIONS)
    for _ in range(3):
        x = torch.randn(6, 24)
        found = []
        for forward in (model, ours):
            model.zero_grad()
            outputs = forward(x)
            before = [value.detach().clone() for value in outputs]
            outputs[0].square().sum().backward()
            for value, right in zip(outputs, before):
                torch.testing.assert_close(value.detach(), right, rtol=0, atol=0)
            found.append([*before, *(p.grad.clone() for p in model.parameters())])
        torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)
    assert [bool(inputs) for inputs in donated] == [False, True], "the backward graph's, and no others"


def test_gradients_that_others_hold_are_kept(farm):
    """A hook keeps the gradient of an output, or the caller asks for it; of others a plan makes use."""
    model = Deep()
    ours, x = torch.compile(model, backend="lfarm", options=OPTIONS), torch.randn(6, 24)
    for way in ("nobody", "hook", "caller", "nobody"):
        found = []
        for forward in (model, ours):
            kept = []
            last = forward(x)[0]
            loss = last.square().sum() + last.exp().sum()
            if way == "hook":
                last.register_hook(kept.append)
            if way == "caller":
                kept = torch.autograd.grad(loss, [last, *model.parameters()])
            else:
                model.zero_grad()
                loss.backward()
                kept += [p.grad.clone() for p in model.parameters()]
            found.append(list(kept))
        torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_what_is_donated_may_be_written(farm):
    """Two products: the second needs memory once nothing reads the first input any more."""

    def products(a, b):
        return (torch.tanh(a) @ b) @ b

    a, b = torch.randn(32, 32), torch.randn(32, 32)
    known = set(lfarm_compile.instances())
    ours = torch.compile(products, backend="lfarm", options=OPTIONS)
    expected = products(a, b)
    torch.testing.assert_close(ours(a, b), expected, rtol=1e-4, atol=1e-4)
    (instance,) = set(lfarm_compile.instances()) - known
    with pytest.raises(Exception, match="no tensor 2"):
        instance.donate([2])
    instance.donate([0])
    torch.testing.assert_close(ours(a.clone(), b), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours(a, b), expected, rtol=1e-4, atol=1e-4)
