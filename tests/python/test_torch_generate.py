"""generate() of transformers with the package: if these fail, tokens of models whose forward torch.compile
compiled are not eager's, or torch computes them, or each length of a prompt has a plan of its own."""

import warnings

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from lfarm import compile as lfarm_compile  # noqa: E402: needs torch
from lfarm import graphs  # noqa: E402

OPTIONS = {"deadline": 300, "budget_candidates": 3, "threads": 1}
SIZES = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}

# Where the package is installed, its entry point does this.
if "lfarm" not in torch._dynamo.list_backends():
    torch._dynamo.register_backend(lfarm_compile.backend, name="lfarm")


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(5)
    torch._dynamo.reset()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.filterwarnings("error", message="lfarm leaves a graph to torch")
        yield


def small(kind, **more):
    """A model of random weights. Without an end token, all tokens that are asked for come."""
    sizes = dict(SIZES)
    if kind != "GPT2":
        sizes.update(intermediate_size=48, num_key_value_heads=2, head_dim=8)
    name = "Gemma3TextConfig" if kind == "Gemma3" else f"{kind}Config"
    config = getattr(transformers, name)(**sizes | more, pad_token_id=0, eos_token_id=None)
    suffix = "LMHeadModel" if kind == "GPT2" else "ForCausalLM"
    return getattr(transformers, f"{kind}{suffix}")(config).eval()


def tokens(model, length, count=12, **named):
    prompt = torch.arange(1, 1 + length)[None]
    return model.generate(prompt, max_new_tokens=count, do_sample=False, **named)


def compile_forward(model, **named):
    model.forward = torch.compile(model.forward, backend="lfarm", options=OPTIONS, **named)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("kind", ["Llama", "Qwen3", "GPT2", "Gemma3"])
def test_gives_eagers_tokens(kind, cache, farm):
    model = small(kind)
    named = {"cache_implementation": "static"} if cache == "static" else {}
    expected = tokens(model, 7, **named)
    compile_forward(model)
    for _ in range(2):
        torch.testing.assert_close(tokens(model, 7, **named), expected)


@pytest.mark.parametrize("kind", ["Llama", "Gemma3"])
def test_prompts_of_any_length_share_a_graph_and_single_tokens_another(kind, farm):
    """Dynamo compiles the first of either for its sizes, and the second for all."""
    model, lengths = small(kind), (7, 5, 9, 6)
    expected = [tokens(model, length) for length in lengths]
    compile_forward(model)
    before = set(graphs.compiled)
    for length, right in zip(lengths, expected):
        torch.testing.assert_close(tokens(model, length), right)
    made = set(graphs.compiled) - before
    assert len(made) == 4
    assert all(graph.left.reason is None for graph in made)


def test_windows_that_fill_give_eagers_tokens(farm):
    """A sliding layer of Gemma 3 keeps the last 9 of its tokens; every second layer keeps all."""
    layers = ["sliding_attention", "full_attention", "sliding_attention"]
    model = small("Gemma3", sliding_window=10, num_hidden_layers=3, layer_types=layers)
    expected = {length: tokens(model, length, 16) for length in (5, 14)}
    compile_forward(model)
    for _ in range(2):
        for length, right in expected.items():
            torch.testing.assert_close(tokens(model, length, 16), right)
