"""lfarm.train_step: if these fail, steps that run without torch's optimisers train something else."""

import copy

import lfarm
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402: needs torch
from torch.nn import functional as F  # noqa: E402

OPTIONS = {"deadline": 600, "budget_candidates": 2, "threads": 1}
STEPS = 20


class Model(nn.Module):
    """Returns its loss."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(16, 32, bias=False), nn.Linear(32, 4)
        self.norm = nn.BatchNorm1d(32)

    def forward(self, x, y):
        return F.cross_entropy(self.head(F.gelu(self.norm(self.first(x)))), y)


def batches():
    torch.manual_seed(7)
    return [(torch.randn(8, 16), torch.randint(4, (8,))) for _ in range(STEPS)]


UPDATES = {
    "sgd": (
        lfarm.Sgd(rate=0.1, momentum=0.9, weight_decay=0.01),
        lambda given: torch.optim.SGD(given, lr=0.1, momentum=0.9, weight_decay=0.01),
    ),
    "adamw": (lfarm.AdamW(rate=1e-2), lambda given: torch.optim.AdamW(given, lr=1e-2)),
    "rmsprop": (
        lfarm.RMSprop(rate=1e-3, momentum=0.9, weight_decay=0.01, centered=True),
        lambda given: torch.optim.RMSprop(
            given, lr=1e-3, momentum=0.9, weight_decay=0.01, centered=True
        ),
    ),
    "adagrad": (
        lfarm.Adagrad(rate=1e-2, weight_decay=0.01),
        lambda given: torch.optim.Adagrad(given, lr=1e-2, weight_decay=0.01),
    ),
    "adafactor": (
        lfarm.Adafactor(rate=1e-2, weight_decay=0.01),
        lambda given: torch.optim.Adafactor(given, lr=1e-2, weight_decay=0.01),
    ),
}


def eager(model, optimiser, rates=()):
    losses = []
    for index, (x, y) in enumerate(batches()):
        if rates:
            optimiser.param_groups[0]["lr"] = rates[index]
        optimiser.zero_grad()
        loss = model(x, y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", UPDATES)
def test_a_program_with_a_loss_is_trained(name, farm):
    torch.manual_seed(5)
    model = Model()
    right = copy.deepcopy(model)
    update, optimiser = UPDATES[name]
    step = lfarm.train_step(torch.export.export(model, batches()[0]), update, **OPTIONS)
    rates = [update.rate / (1 + index) for index in range(STEPS)]
    expected = eager(right, optimiser(right.parameters()), rates)
    losses = [step(x, y, rate=rate).item() for (x, y), rate in zip(batches(), rates)]
    assert step.instance.plan is not None
    assert losses == pytest.approx(expected, rel=1e-3, abs=1e-3)
    parameters = step.parameters()
    for key, value in right.named_parameters():
        torch.testing.assert_close(parameters[key], value.detach(), rtol=1e-3, atol=1e-4)
    for key in ("norm.running_mean", "norm.running_var"):
        torch.testing.assert_close(parameters[key], dict(right.named_buffers())[key])
    kept = {key.split(".")[0] for key in step.state_dict().keys() - parameters.keys()}
    assert kept == {*update.kept, "step"}


def test_a_step_goes_on_from_a_checkpoint(farm):
    torch.manual_seed(5)
    program = torch.export.export(Model(), batches()[0])
    first = lfarm.train_step(program, UPDATES["adamw"][0], **OPTIONS)
    second = lfarm.train_step(program, UPDATES["adamw"][0], **OPTIONS)
    given = batches()
    for x, y in given[:10]:
        first(x, y)
    second.load_state_dict(first.state_dict())
    for x, y in given[10:]:
        torch.testing.assert_close(second(x, y), first(x, y))
    with pytest.raises(KeyError, match="the step has no state 'none'"):
        second.load_state_dict({"none": torch.zeros(1)})


class Written(nn.Module):
    """A step as somebody wrote it: least squares by gradient descent."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.zeros(4))

    def forward(self, x, y):
        away = x @ self.weight - y
        self.weight.sub_(0.1 * 2 * (away @ x) / y.numel())
        return away.square().mean()


def test_a_written_step_is_taken_as_it_is(farm, tmp_path):
    x, model = torch.randn(32, 4), Written()
    y = x @ torch.tensor([1.0, -2, 3, 0.5])
    torch.export.save(torch.export.export(model, (x, y)), tmp_path / "step.pt2")
    step = lfarm.train_step(tmp_path / "step.pt2", **OPTIONS)
    for _ in range(STEPS):
        torch.testing.assert_close(step(x, y), model(x, y), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(step.parameters()["weight"], model.weight, rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match="learning rate of its own"):
        step(x, y, rate=0.5)


def test_what_is_no_step_is_refused():
    program = torch.export.export(nn.Linear(4, 2), (torch.randn(3, 4),))
    with pytest.raises(ValueError, match="writes none of its parameters"):
        lfarm.train_step(program, **OPTIONS)
    with pytest.raises(ValueError, match="cannot be differentiated: .*has to be the loss"):
        lfarm.train_step(program, lfarm.AdamW(rate=1e-3), **OPTIONS)
