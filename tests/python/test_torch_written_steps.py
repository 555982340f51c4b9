"""Steps as PyTorch's users write them: checkpointed layers, recurrent ones, fused optimisers, scaled losses, numbers
drawn from distributions. If these fail, a model that trains with eager PyTorch trains otherwise, or not at all."""

import copy
import warnings

import lfarm
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402: needs torch
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from lfarm import compile as lfarm_compile  # noqa: E402
from lfarm import graphs  # noqa: E402

if "lfarm" not in torch._dynamo.list_backends():
    torch._dynamo.register_backend(lfarm_compile.backend, name="lfarm")

OPTIONS = {"deadline": 600, "budget_candidates": 2, "threads": 1}
STEPS = 20


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(5)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="lfarm leaves a graph to torch")
        yield


def compiled(model, **arguments):
    return torch.compile(model, backend="lfarm", options=OPTIONS, **arguments)


def train(model, forward, optimiser, steps=STEPS):
    torch.manual_seed(7)
    losses = []
    for _ in range(steps):
        x, y = model.batch()
        optimiser.zero_grad()
        loss = F.cross_entropy(forward(x), y)
        loss.backward()
        optimiser.step()
        losses.append(loss.detach().clone())
    return torch.stack(losses)


def both(model, wrap=lambda model: model):
    """Losses of `wrap`'s steps and of lfarm's."""
    right = copy.deepcopy(model)
    expected = train(right, wrap(right), torch.optim.SGD(right.parameters(), lr=0.1, momentum=0.9))
    losses = train(model, compiled(model), torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    assert losses[-1] != losses[0]
    return losses, expected


class Checkpointed(nn.Module):
    def __init__(self, preserves, dropped):
        super().__init__()
        layers = [nn.Linear(16, 32), nn.GELU(), nn.Dropout(dropped), nn.Linear(32, 16)]
        self.block, self.head = nn.Sequential(*layers), nn.Linear(16, 4)
        self.preserves, self.dropped = preserves, dropped

    def forward(self, x):
        x = checkpoint(self.block, x, use_reentrant=False, preserve_rng_state=self.preserves)
        return self.head(F.dropout(x, self.dropped, self.training))

    def batch(self):
        return torch.randn(8, 16), torch.randint(4, (8,))


@pytest.mark.parametrize("preserves", [True, False])
@pytest.mark.parametrize("dropped", [0.0, 0.3])
def test_checkpointed_layers_are_computed_again(preserves, dropped, farm):
    # Eager draws other numbers for the second time where states are not preserved: torch.compile never does.
    is_eagers = preserves or dropped == 0
    losses, expected = both(
        Checkpointed(preserves, dropped),
        lambda model: model if is_eagers else torch.compile(model, backend="aot_eager"),
    )
    torch.testing.assert_close(losses, expected, rtol=1e-3, atol=1e-3)
    assert all(one.left.reason is None for one in graphs.compiled)


class Recurrent(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(layer.hidden_size * (1 + layer.bidirectional), 4)

    def forward(self, x):
        return self.head(self.layer(x)[0].mean(0))

    def batch(self):
        return torch.randn(5, 4, 6), torch.randint(4, (4,))


LAYERS = {
    "gru": lambda: nn.GRU(6, 12),
    "rnn": lambda: nn.RNN(6, 12),
    "lstm": lambda: nn.LSTM(6, 8, 2, dropout=0.1, bidirectional=True),
}


@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers_are_captured(name, farm):
    losses, expected = both(Recurrent(LAYERS[name]()))
    torch.testing.assert_close(losses, expected, rtol=1e-3, atol=1e-3)
    assert len(graphs.compiled) >= 2 and all(one.left.reason is None for one in graphs.compiled)


class FusedStep(nn.Module):
    """Least squares by one of torch's fused steps, with the scale of a GradScaler. `lists`: what the step keeps, by
    its argument. Returns the loss."""

    def __init__(self, step, lists, **numbers):
        super().__init__()
        self.step, self.lists, self.numbers = step, lists, numbers
        for name in ("weight", *lists):
            self.register_buffer(name, torch.zeros(4))
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("scale", torch.full((), 64.0))
        self.register_buffer("tracker", torch.zeros((), dtype=torch.int32))

    def forward(self, x, y):
        away = x @ self.weight - y
        gradient = self.scale * (2 / y.numel()) * (away @ x)
        found = torch.zeros(())
        torch._amp_foreach_non_finite_check_and_unscale_([gradient], found, self.scale.reciprocal())
        kept = {name: [getattr(self, name)] for name in self.lists}
        if "state_steps" in self.numbers.get("counts", ()):
            self.count.add_(1)
            kept["state_steps"] = [self.count]
        numbers = {name: value for name, value in self.numbers.items() if name != "counts"}
        self.step([self.weight], [gradient], **kept, **numbers, found_inf=found)
        torch._amp_update_scale_(self.scale, self.tracker, found, 2.0, 0.5, 3)
        return away.square().mean()


ADAM = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.01, "eps": 1e-8, "amsgrad": False, "maximize": False}
FUSED = {
    "sgd": lambda: FusedStep(
        torch._fused_sgd_,
        ["momentum_buffer_list"],
        **{"lr": 0.05, "momentum": 0.9, "dampening": 0.0, "weight_decay": 0.01, "nesterov": True},
        **{"maximize": False, "is_first_step": False},
    ),
    "adam": lambda: FusedStep(
        torch._fused_adam_, ["exp_avgs", "exp_avg_sqs"], counts=["state_steps"], max_exp_avg_sqs=[], lr=0.05, **ADAM
    ),
    "adamw": lambda: FusedStep(
        torch._fused_adamw_, ["exp_avgs", "exp_avg_sqs"], counts=["state_steps"], max_exp_avg_sqs=[], lr=0.05, **ADAM
    ),
    "adagrad": lambda: FusedStep(
        torch._fused_adagrad_,
        ["state_sums"],
        counts=["state_steps"],
        **{"lr": 0.5, "lr_decay": 0.1, "weight_decay": 0.01, "eps": 1e-10, "maximize": False},
    ),
}


@pytest.mark.parametrize("name", FUSED)
def test_fused_steps_are_torchs(name, farm):
    model, x = FUSED[name](), torch.randn(32, 4)
    y = x @ torch.tensor([1.0, -2, 3, 0.5])
    with torch.no_grad():
        step = lfarm.train_step(torch.export.export(model, (x, y)), **OPTIONS)
        losses, expected = zip(*[(step(x, y).item(), model(x, y).item()) for _ in range(STEPS)])
    assert losses == pytest.approx(expected, rel=1e-3, abs=1e-3)
    assert losses[-1] < losses[0]
    states = step.parameters()
    torch.testing.assert_close(states["weight"], model.weight, rtol=1e-3, atol=1e-3)
    assert states["scale"].item() == model.scale.item() > 64


@pytest.mark.parametrize("name", ["gamma", "dirichlet"])
def test_gradients_of_random_numbers_are_torchs(name, farm):
    first, second = 0.5 + torch.rand(16, 4), torch.rand(16, 4).clamp(0.05, 0.95)
    if name == "gamma":
        given, operator = (4 * first, 4 * second * first), torch._standard_gamma_grad
    else:
        given, operator = (second, 3 * first, 3 * first + 1.5), torch._dirichlet_grad
    with torch.no_grad():
        ours = torch.compile(lambda *given: operator(*given), backend="lfarm", options=OPTIONS)
        torch.testing.assert_close(ours(*given), operator(*given), rtol=5e-3, atol=1e-4)
