"""How joint graphs are divided: if these fail, equal values are computed or saved twice, or processes that train
by plans load Inductor."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from torch._functorch.partitioners import min_cut_rematerialization_partition  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from lfarm.duplicates import merge_duplicates  # noqa: E402


def merged(function, *inputs, returned):
    graph = make_fx(function, tracing_mode="fake")(*inputs)
    merge_duplicates(graph, returned)
    assert all(
        torch.equal(ours, right) for ours, right in zip(graph(*inputs), function(*inputs))
    )
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


def test_equal_nodes_are_merged():
    def joint(x):
        y, again = torch.tanh(x), torch.tanh(x)
        return [(y + 1).sum(), (y * 2 + again * 3).sum()]

    names = merged(joint, torch.randn(3), returned=1)
    assert names.count("aten.tanh.default") == 1


def test_numbers_of_other_types_differ():
    def joint(x):
        return [(x * 1).sum(), (x * 1.0).sum(), (x * True).sum()]

    whole = torch.ones(3, dtype=torch.int64)
    assert merged(joint, whole, returned=3).count("aten.mul.Tensor") == 3


def test_what_the_forward_graph_alone_needs_is_not_saved():
    def joint(x):
        return [torch.exp(torch.tanh(x)).sum(), torch.tanh(x).mul(2).sum()]

    assert merged(joint, torch.randn(3), returned=1).count("aten.tanh.default") == 2


def test_results_and_random_numbers_stay_apart():
    def joint(x):
        torch.manual_seed(0)
        return [torch.tanh(x), torch.tanh(x), torch.rand_like(x), torch.rand_like(x)]

    graph = make_fx(joint, tracing_mode="fake")(torch.randn(3))
    merge_duplicates(graph, 2)
    names = [str(node.target) for node in graph.graph.nodes]
    assert names.count("aten.tanh.default") == 2 and names.count("aten.rand_like.default") == 2


TRAIN = """
import sys, warnings
import torch
from lfarm import compile, graphs
def unsuited(*_): raise graphs.Unsuited("it is not to be run")
graphs._instance_of = unsuited
warnings.simplefilter("ignore")
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 3))
torch.compile(model, backend=compile.backend)(torch.randn(4, 8)).sum().backward()
print("torch._inductor.pattern_matcher" in sys.modules)
"""


def test_inductors_patterns_are_not_loaded():
    ran = subprocess.run([sys.executable, "-c", TRAIN], check=True, capture_output=True, text=True)
    assert ran.stdout.split()[-1] == "False", ran.stdout


def test_gpt2_saves_what_torchs_own_pass_saves():
    import training_models
    from torch._dynamo.backends.common import aot_autograd

    from lfarm.partition import _divided, saved_bytes

    model = training_models.Gpt2(200, 32, 4, 2, 16, 4, 0.0)
    x, _ = model.batch()
    found = []
    for divide in (min_cut_rematerialization_partition, _divided):

        def noted(joint, inputs, divide=divide, **named):
            forward, backward = divide(joint, inputs, **named)
            found.append((saved_bytes(forward, named["num_fwd_outputs"]), len(backward.graph.nodes)))
            return forward, backward

        torch._dynamo.reset()
        run = aot_autograd(fw_compiler=lambda g, _: g.forward, partition_fn=noted)
        torch.compile(model, backend=run)(x).sum().backward()
    assert found[0] == found[1]
