"""Training with torch.compile(backend="lfarm"): if these fail, gradients or steps are other than eager's,
plans are made anew when weights change, or a graph that lfarm cannot hold stops the training."""

import copy
import os
import pathlib
import re
import subprocess
import warnings

import lfarm
import pytest
from lfarm.model import Instance

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402: needs torch
from torch.nn import functional as F  # noqa: E402

import training_models  # noqa: E402
from lfarm import compile as lfarm_compile  # noqa: E402
from lfarm import graphs  # noqa: E402

if "lfarm" not in torch._dynamo.list_backends():
    torch._dynamo.register_backend(lfarm_compile.backend, name="lfarm")

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "clients" / "examples" / "learned_fft"
OPTIONS = {"deadline": 600, "budget_candidates": 2, "threads": 1}
STEPS = 20


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(5)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="lfarm leaves a graph to torch")
        yield


@pytest.fixture
def exports(monkeypatch):
    """What was exported."""
    made = []
    original = torch.export.export

    def export(module, *arguments, **named):
        made.append(module)
        return original(module, *arguments, **named)

    monkeypatch.setattr(torch.export, "export", export)
    return made


@pytest.fixture
def calls(monkeypatch):
    """The instance of each call, and whether it ran a plan."""
    made = []
    original = Instance.call_row

    def call_row(self, *arguments, **named):
        made.append((self, self.has_plan()))
        return original(self, *arguments, **named)

    monkeypatch.setattr(Instance, "call_row", call_row)
    return made


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 32), nn.ReLU())
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.layers(x))

    def batch(self):
        return torch.randn(8, 16), torch.randint(4, (8,))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        # A bias before a norm has no gradient but rounding, which AdamW makes a step of.
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, stride=2)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        return self.head(F.relu(self.second(x)).mean((2, 3)))

    def batch(self):
        return torch.randn(4, 3, 12, 12), torch.randint(4, (4,))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.place = nn.Parameter(0.1 * torch.randn(10, 16))
        self.blocks = nn.ModuleList(Block(16, 2) for _ in range(2))
        self.head = nn.Linear(16, 50)

    def forward(self, tokens):
        x = self.embed(tokens) + self.place
        for block in self.blocks:
            x = block(x)
        return self.head(x).transpose(1, 2)

    def batch(self):
        tokens = torch.randint(50, (4, 11))
        return tokens[:, :-1], tokens[:, 1:]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.norms[0](x)).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, 12, batch_first=True), nn.Linear(12, 4)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])

    def batch(self):
        return torch.randn(4, 7, 6), torch.randint(4, (4,))


def compiled(model, options=OPTIONS, **arguments):
    return torch.compile(model, backend="lfarm", options=options, **arguments)


OPTIMISERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
}


def train(model, forward, optimiser, steps=STEPS):
    """The losses of `steps` steps on the same batches whatever the model."""
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


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("kind", [Mlp, Cnn, Transformer, Lstm])
def test_losses_are_eagers(kind, optimiser, farm, exports, calls):
    model = kind()
    right = copy.deepcopy(model)
    expected = train(right, right, OPTIMISERS[optimiser](right.parameters()))
    losses = train(model, compiled(model), OPTIMISERS[optimiser](model.parameters()))
    torch.testing.assert_close(losses, expected, rtol=1e-3, atol=1e-3)
    assert losses[-1] != losses[0]
    assert len(exports) == 2, "a forward and a backward graph, whatever the weights are by then"
    assert len(calls) == 2 * STEPS and all(has_plan for _, has_plan in calls)
    for name, buffer in right.named_buffers():
        torch.testing.assert_close(dict(model.named_buffers())[name], buffer, rtol=1e-3, atol=1e-3)


# Small ones of their kind. Of ResNet, batches and steps at which eager itself stays within 1e-3 of its own
# losses when its weights are perturbed in their last place.
KNOWN = {
    "gpt2": (lambda: training_models.Gpt2(200, 32, 4, 4, 16, 4), 1e-2),
    "vit": (lambda: training_models.Vit(32, 8, 32, 4, 2, 10, 4), 1e-2),
    "unet": (lambda: training_models.UNet(16, 4, 2, 8), 1e-2),
    "resnet18": (lambda: training_models.ResNet18(64, 10, 8, 8), 1e-4),
}


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("name", KNOWN)
def test_known_models_train(name, optimiser, farm, calls):
    make, rate = KNOWN[name]
    model = make()
    right = copy.deepcopy(model)

    def with_rate(trained):
        made = OPTIMISERS[optimiser](trained.parameters())
        made.param_groups[0]["lr"] = rate
        return made

    expected = train(right, right, with_rate(right))
    losses = train(model, compiled(model), with_rate(model))
    torch.testing.assert_close(losses, expected, rtol=1e-3, atol=1e-3)
    assert len(calls) == 2 * STEPS and all(has_plan for _, has_plan in calls)


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_a_learned_transform_has_eagers_losses(optimiser, farm, exports, calls, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import pipelines
    import signals

    n, bands = 16, 6
    model = pipelines.Pipelines(n, bands)
    with torch.no_grad():
        model.analysis.angles.add_(0.05 * torch.randn_like(model.analysis.angles))

    def losses(model, wrap):
        torch.manual_seed(7)
        objective = wrap(pipelines.Objective(model))
        rates = {"sgd": 1e-3, "adamw": 3e-3}
        made = OPTIMISERS[optimiser](model.parameters())
        made.param_groups[0]["lr"] = rates[optimiser]
        found = []
        for _ in range(STEPS):
            frames, segments = signals.batch(4, n)
            made.zero_grad()
            loss = objective(frames, segments, pipelines.reference(frames, segments, bands))
            loss.backward()
            made.step()
            found.append(loss.detach().clone())
        return torch.stack(found)

    right = copy.deepcopy(model)
    expected = losses(right, lambda objective: objective)
    torch.testing.assert_close(losses(model, compiled), expected, rtol=1e-3, atol=1e-3)
    assert len(exports) == 2 and all(has_plan for _, has_plan in calls)


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("optimiser", [torch.optim.SGD, torch.optim.AdamW])
def test_an_optimisers_step_is_a_graph_of_its_own(optimiser, foreach, farm, exports, calls):
    def steps(model, wrap):
        torch.manual_seed(7)
        named = {"momentum": 0.9} if optimiser is torch.optim.SGD else {"weight_decay": 0.1}
        made = optimiser(model.parameters(), lr=1e-2, foreach=foreach, **named)
        step = wrap(made.step)
        for _ in range(6):
            for parameter in model.parameters():
                parameter.grad = torch.randn_like(parameter)
            step()

    model = Mlp()
    right = copy.deepcopy(model)
    steps(right, lambda step: step)
    steps(model, compiled)
    for ours, expected in zip(model.parameters(), right.parameters()):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)
    assert len(calls) >= 4, "the first steps make the optimiser's state"
    assert len(exports) <= 4


LAUNCHES_MAX = 40


def launches_of(path):
    """The calls of a run of the program before a search, without those that weights are bound by."""
    command = [os.path.join(os.environ["LFARM_BIN"], "lfarm"), "print", str(path), "--stage", "program"]
    command += ["--target", "cpu-x86_64-avx2"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    calls = re.findall(r"^call \d+ \(([\d ]*)\) -> \(([\d ]*)\)", text, re.MULTILINE)
    assert calls, text[:200]
    made, launches = set(), 0  # what is made of constants alone is made once
    for read, written in calls:
        if set(read.split()) <= made:
            made.update(written.split())
        else:
            launches += 1
    return launches


def test_a_learned_transforms_step_takes_few_launches(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from transform import LearnedTransform

    paths = []

    def save(program, *_):
        paths.append(tmp_path / f"{len(paths)}.pt2")
        torch.export.save(program, paths[-1])
        raise graphs.Unsuited("it was saved")

    monkeypatch.setattr(graphs, "_instance_of", save)
    model, x, y = LearnedTransform(64), torch.randn(8, 2, 64), torch.randn(8, 2, 64)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss = compiled(lambda x, y: (model(x) - y).square().mean() + 0.01 * model.gates.abs().mean())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss(x, y).backward()
        compiled(optimiser.step)()
    launches = [launches_of(path) for path in paths]
    assert len(launches) == 3, "forward, backward and update"
    assert sum(launches) <= LAUNCHES_MAX, launches


def test_dropout_draws_what_eager_does(farm, calls):
    model = nn.Sequential(nn.Linear(16, 64), nn.Dropout(0.4), nn.Linear(64, 4))
    ours, x = compiled(model), torch.randn(8, 16)
    for seed in range(3):
        results = []
        for forward in (model, ours):
            model.zero_grad()
            torch.manual_seed(seed)
            y = forward(x)
            y.square().sum().backward()
            results.append([y.detach(), *(p.grad.clone() for p in model.parameters())])
        torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
    assert len(calls) == 6


def test_sizes_may_change(farm, exports):
    model = Mlp()
    ours = compiled(model, dynamic=True)
    for rows in (4, 7, 3, 12):
        x, grads = torch.randn(rows, 16, requires_grad=True), []
        for forward in (model, ours):
            x.grad = None
            forward(x).square().sum().backward()
            grads.append(x.grad)
        torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-5)
    assert len(exports) == 2


class Views(nn.Module):
    """Outputs that are views of inputs, of parameters and of one another, in other orders than row-major."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 3))

    def forward(self, x):
        y = x @ self.weight.t()
        return y.t(), y[1:], self.weight.t(), x.t(), (y * 2).permute(1, 0), (y.sum(), x.shape[0])


def test_outputs_may_be_views(farm):
    model = Views()
    ours, x = compiled(model), torch.randn(3, 4).t().requires_grad_()
    for _ in range(2):
        expected, results = model(x), ours(x)
        assert results[-1][1] == expected[-1][1]
        for result, right in zip([*results[:-1], results[-1][0]], [*expected[:-1], expected[-1][0]]):
            torch.testing.assert_close(result, right)
            assert result.stride() == right.stride()
        grads = []
        for outputs in (expected, results):
            model.zero_grad()
            sum(value.square().sum() for value in outputs[:-1]).backward(retain_graph=True)
            grads.append(model.weight.grad.clone())
        torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-5)


def test_weights_are_read_anew_once_training_is_over(farm):
    model, x = Mlp(), torch.randn(8, 16)
    ours = compiled(model)
    for _ in range(2):
        train(model, ours, torch.optim.SGD(model.parameters(), lr=0.1), steps=2)
        with torch.no_grad():
            torch.testing.assert_close(ours(x), model(x), rtol=1e-4, atol=1e-5)


@torch.library.custom_op("lfarm_tests::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled.register_fake
def _(x):
    return torch.empty_like(x)


doubled.register_autograd(lambda _, gradient: gradient * 2)


def test_one_graph_that_lfarm_cannot_hold_is_torchs(farm, calls):
    def forward(x, w):
        return doubled(x @ w).sum()

    x, w = torch.eye(4), torch.randn(4, 4, requires_grad=True)
    ours = compiled(forward)
    with pytest.warns(UserWarning, match="lfarm leaves a graph to torch: .*doubled") as told:
        for _ in range(3):
            w.grad = None
            ours(x, w).backward()
    assert len([one for one in told if "doubled" in str(one.message)]) == 1
    expected = torch.autograd.grad(forward(x, w), w)[0]
    torch.testing.assert_close(w.grad, expected, rtol=1e-3, atol=1e-4)
    assert len(calls) == 3, "the backward graph is a plan's"


@pytest.mark.parametrize("what", ["option", "mode"])
def test_what_it_is_told_wrongly_is_named(what):
    model, x = Mlp(), torch.randn(8, 16)
    wrong = {"options": {"treads": 1}} if what == "option" else {"mode": "max-autotun"}
    near = "did you mean '(threads|max-autotune)'"
    with pytest.raises(Exception, match=f"lfarm has no {what} .*{near}"):
        torch.compile(model, backend="lfarm", **wrong)(x)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_modes_are_torchs(mode, monkeypatch):
    opened = []
    monkeypatch.setattr(
        lfarm.graphs, "_shared_session", lambda options: opened.append(options) or 1 / 0
    )
    with torch.no_grad(), pytest.warns(UserWarning, match="division by zero"):
        torch.compile(Mlp(), backend="lfarm", mode=mode)(torch.randn(8, 16))
    assert opened == [{"budget_candidates": 512} if mode == "max-autotune" else {}]


def test_explain_lists_graphs_and_why(farm):
    model, x = Mlp(), torch.randn(8, 16)
    told = lfarm.explain(model, x, options=OPTIONS)
    assert [(one.role, one.is_on_lfarm) for one in told.graphs] == [
        ("forward", True),
        ("backward", True),
    ]
    assert str(told).splitlines()[0] == "2 graphs: 2 by lfarm" and told.breaks == ()
    with torch.no_grad():
        told = lfarm.explain(lambda y: doubled(y), torch.eye(3), options=OPTIONS)
    (graph,) = told.graphs
    assert not graph.is_on_lfarm and "doubled" in graph.reason
    assert str(graph).startswith("inference: torch, because ")


def saved_and_gradients(model, x, memory):
    """Bytes that the forward graph saves under a bound (0: none), what is left of it, and gradients."""
    from lfarm import partition
    from torch._dynamo.backends.common import aot_autograd

    divide = partition.partition_for({"memory": memory})
    saved = []

    def watched(joint, inputs, **named):
        forward, backward = divide(joint, inputs, **named)
        saved.append(partition.saved_bytes(forward, named["num_fwd_outputs"]))
        return forward, backward

    def as_it_is(graph, _):
        return graph.forward

    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=as_it_is, bw_compiler=as_it_is, partition_fn=watched)
    model.zero_grad()
    torch.compile(model, backend=backend)(x).square().sum().backward()
    (bytes_saved,) = saved
    return bytes_saved, getattr(divide, "left", 0), [p.grad.clone() for p in model.parameters()]


def test_a_bound_on_memory_saves_less_for_the_backward_graph():
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 8))
    x = torch.randn(32, 16)
    free, _, expected = saved_and_gradients(model, x, 0)
    for memory in (free, free // 2):
        saved, left, gradients = saved_and_gradients(model, x, memory)
        assert 2 * saved <= memory
        assert left == memory - saved
        for one, other in zip(gradients, expected):
            torch.testing.assert_close(one, other)


def test_training_under_a_bound_on_memory_takes_eagers_steps(farm):
    before = set(lfarm_compile.graphs.compiled)
    model = Mlp()
    x, y = model.batch()
    compiled = torch.compile(model, backend="lfarm", options={**OPTIONS, "memory": 64 * 1024})
    F.cross_entropy(compiled(x), y).backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    F.cross_entropy(model(x), y).backward()
    for one, parameter in zip(gradients, model.parameters()):
        torch.testing.assert_close(one, parameter.grad, rtol=1e-4, atol=1e-5)
    made = set(lfarm_compile.graphs.compiled) - before
    assert made and all(one.left.reason is None for one in made)
