"""generate() of transformers with the package: if these fail, tokens of models whose forward torch.compile
compiled are not eager's, or torch computes them, or each length of a prompt has a plan of its own."""

import warnings

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from lfarm import compile as lfarm_compile  # noqa: E402: needs torch
from lfarm import graphs, lengths  # noqa: E402

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


def named_of(cache):
    return {"cache_implementation": "static"} if cache == "static" else {}


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("kind", ["Llama", "Qwen3", "GPT2", "Gemma3"])
def test_prompts_of_any_length_share_a_graph_and_single_tokens_another(kind, cache, farm):
    """From the first call on, with no more than torch.compile's defaults, and with eager's tokens."""
    model, named, prompts = small(kind), named_of(cache), (9, 5, 7, 6, 7)
    expected = [tokens(model, length, **named) for length in prompts]
    model._cache = None  # the static cache that eager's calls have initialized
    compile_forward(model)
    before = set(graphs.compiled)
    torch._dynamo.utils.counters.clear()
    for length, right in zip(prompts, expected):
        torch.testing.assert_close(tokens(model, length, **named), right)
    made = set(graphs.compiled) - before
    assert len(made) == torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2
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


def compile_counted(model, **named):
    """Compiles the model's forward for graphs that torch runs. Returns them, as they come."""
    made = []

    def backend(graph, _):
        lengths.expect_others()
        made.append(graph)
        return graph.forward

    model.forward = torch.compile(model.forward, backend=backend, **named)
    return made


def sizes_of(graph):
    nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
    values = [graphs.meta_of(node) for node in nodes]
    return [size for value in values if isinstance(value, torch.Tensor) for size in value.shape]


def symbols_of(graph):
    return {str(size) for size in sizes_of(graph) if isinstance(size, torch.SymInt)}


def test_new_static_caches_share_a_graph():
    """The first one's prompt runs by the graph for caches that were used before; those of the others share
    one, which also makes the keys and values."""
    model = small("Llama")
    made, counts = compile_counted(model), []
    for length in (9, 7, 5, 6):
        cache = transformers.StaticCache(config=model.config, max_cache_len=32)
        tokens(model, length, past_key_values=cache)
        counts.append(len(made))
    assert counts == [2, 3, 3, 3]


def test_windows_that_fill_take_five_graphs():
    """Prompts within the window and longer ones; single tokens before it is full, as it fills, and then."""
    layers = ["sliding_attention", "full_attention", "sliding_attention"]
    model = small("Gemma3", sliding_window=10, num_hidden_layers=3, layer_types=layers)
    made = compile_counted(model)
    for length in (5, 14, 6, 8, 17):
        tokens(model, length)
    assert len(made) == 5


def test_sizes_are_fixed_where_the_caller_says_so():
    model = small("Llama")
    made = compile_counted(model, dynamic=False)
    tokens(model, 9, 3)
    assert len(made) == 3  # single tokens after 9 and after 10 cached ones
    assert not any(symbols_of(graph) for graph in made)


def test_calls_without_a_cache_keep_their_sizes():
    model = small("Llama")
    made = compile_counted(model)
    model(torch.arange(1, 8)[None], use_cache=False)
    assert len(made) == 1 and not symbols_of(made[0])


def test_a_backend_that_is_called_by_hand_is_left_alone():
    lengths.expect_others()


@pytest.mark.parametrize(
    ("name", "axes", "is_static", "expected"),
    [
        ("L['kwargs']['input_ids']", 2, False, [1]),
        ("L['position_ids']", 3, False, [2]),
        ("L['attention_mask']", 2, False, [1]),
        ("L['attention_mask']", 4, True, [2]),
        ("L['kwargs']['attention_mask']['sliding_attention']", 4, False, [2, 3]),
        ("L['kwargs']['past_key_values'].layers[1].keys", 4, False, [2]),
        ("L['kwargs']['past_key_values'].layers[1].keys", 4, True, []),
        ("L['self'].input_ids", 2, False, []),
        ("L['labels']", 2, False, []),
    ],
)
def test_lengths_are_known_by_the_inputs_names(name, axes, is_static, expected):
    assert lengths._lengths(name, axes, is_static) == expected
