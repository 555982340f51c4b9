"""One way of `lfarm-bench llm`: a language model of random weights, its first token and the next ones.

The argument is JSON: {"model", "way", "size", "dtype", "device", "threads", "prompts", "tokens", "samples",
"options"}. The ways are eager, inductor and lfarm, the latter two by torch.compile, and export, which writes
the model's programs for a prompt of any length and for single tokens instead of running them. Needs torch and
transformers, for lfarm also the package lfarm.

Prints lines of JSON: {"ready": 1, "shape", "versions"}, then one for each length of a prompt,
{"prompt_tokens", "ttft_ms": [...], "tpot_ms": [...], "plan_s", "peak_mb"}. Of export {"archive", "bytes"},
followed by so many bytes. {"missing": "..."} or {"error": "..."} in place of any line says why there is none.
"""

import contextlib
import io
import json
import os
import sys
import time

SPEC = json.loads(sys.argv[1])
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = str(SPEC["threads"])  # libraries read them when they are loaded
# Answers go where standard output went; what libraries print goes to standard error.
ANSWERS = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)

# Of the published models. The first word names transformers' classes.
SHAPES = {
    "llama3_8b": ("Llama", {
        "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192}),
    "gemma3_4b": ("Gemma3", {
        "vocab_size": 262208, "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 1024,
        "max_position_embeddings": 8192}),
    "gemma4_moe": ("Gemma4", {
        "vocab_size": 262144, "hidden_size": 2816, "intermediate_size": 2112, "num_hidden_layers": 30,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "global_head_dim": 256,
        "hidden_size_per_layer_input": 0, "enable_moe_block": True, "num_experts": 128, "top_k_experts": 8,
        "moe_intermediate_size": 704, "sliding_window": 1024, "max_position_embeddings": 8192}),
    "qwen3_4b": ("Qwen3", {
        "vocab_size": 151936, "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "tie_word_embeddings": True, "max_position_embeddings": 8192}),
    "qwen3_30b_a3b": ("Qwen3Moe", {
        "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48,
        "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
        "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": True,
        "max_position_embeddings": 8192}),
    "qwen3_0.6b": ("Qwen3", {
        "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
        "tie_word_embeddings": True, "max_position_embeddings": 8192}),
}
_BY_EIGHT = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
             "num_experts", "moe_intermediate_size")
_FREE_SHARE = 0.6  # of the free memory that weights may take


def answer(line, content=b""):
    ANSWERS.write(json.dumps(line).encode() + b"\n" + content)
    ANSWERS.flush()


def reduced(shape):
    """An eighth of every width with heads as wide as before, and few layers and words."""
    small = dict(shape)
    small["head_dim"] = shape.get("head_dim", shape["hidden_size"] // shape["num_attention_heads"])
    for name in _BY_EIGHT:
        if name in shape:
            small[name] = max(shape[name] // 8, 1)
    for name in ("num_experts_per_tok", "top_k_experts"):
        if name in shape:
            small[name] = min(shape[name], small["num_experts"] // 2)
    small["num_hidden_layers"] = max(shape["num_hidden_layers"] // 8, 2)
    small["vocab_size"] = shape["vocab_size"] // 16
    return small


def build(torch, transformers):
    """The model, and in words what of the published shape it is."""
    kind, shape = SHAPES[SPEC["model"]]
    text = "Text" if kind.startswith("Gemma") else ""
    make_config = getattr(transformers, f"{kind}{text}Config")
    make_model = getattr(transformers, f"{kind}ForCausalLM")
    dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[SPEC["dtype"]]

    def made(shape, device):
        with torch.device(device):
            before = torch.get_default_dtype()
            torch.set_default_dtype(dtype)
            try:
                return make_model(make_config(**shape, pad_token_id=0, eos_token_id=None)).eval()
            finally:
                torch.set_default_dtype(before)

    wants = SPEC["size"]
    if wants == "auto":
        weights = sum(p.numel() * p.element_size() for p in made(shape, "meta").parameters())
        wants = "full" if weights < _FREE_SHARE * free_bytes(torch) else "reduced"
    small = reduced(shape)
    words = f"an eighth of the width, {small['num_hidden_layers']} of {shape['num_hidden_layers']} layers"
    torch.manual_seed(0)
    if wants == "full":
        return made(shape, SPEC["device"]), "full"
    return made(small, SPEC["device"]), words


def free_bytes(torch):
    if SPEC["device"] != "cpu":
        return torch.cuda.mem_get_info()[0]
    with open("/proc/meminfo") as file:
        facts = dict(line.split(":") for line in file)
    return int(facts["MemAvailable"].split()[0]) << 10


def peak_mb(torch):
    if SPEC["device"] != "cpu":
        return torch.cuda.max_memory_allocated() / 2**20
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) / 1024


def ask_versions_once():
    """transformers asks for torch's version in each layer of experts, in a way that breaks Dynamo's graphs:
    39 of a reduced Qwen3 30B-A3B, against 3 with an answer that is known."""
    with contextlib.suppress(ImportError, AttributeError):
        from transformers.integrations import moe

        is_old = moe.is_torch_less_or_equal("2.10.0", accept_dev=True)
        moe.is_torch_less_or_equal = lambda *_, **__: is_old


class Decoder:
    """Prompts and single tokens through a model with a cache of fixed length."""

    def __init__(self, torch, transformers, model, length, compile_with):
        self.torch = torch
        self.cache = transformers.StaticCache(config=model.config, max_cache_len=length)

        def step(tokens, positions, cache):
            out = model(input_ids=tokens, position_ids=positions[None], past_key_values=cache,
                        use_cache=True, logits_to_keep=1)
            return out.logits[:, -1].argmax(-1)

        self.prompt = self.token = step
        if compile_with:
            ask_versions_once()
            # With dynamic=False each token of a layer with a window, which counts its tokens, is compiled.
            named = {"backend": compile_with}
            if compile_with == "lfarm":
                named["options"] = SPEC["options"]
            self.prompt, self.token = torch.compile(step, **named), torch.compile(step, **named)

    def wait(self):
        if SPEC["device"] != "cpu":
            self.torch.cuda.synchronize()

    def run(self, ids, tokens):
        """Milliseconds to the first token and for each of the others."""
        torch, length = self.torch, ids.shape[1]
        self.cache.reset()
        self.wait()
        start = time.perf_counter()
        token = self.prompt(ids, torch.arange(length, device=ids.device), self.cache)
        int(token)
        first = time.perf_counter()
        for k in range(tokens - 1):
            token = self.token(token[:, None], torch.tensor([length + k], device=ids.device), self.cache)
            int(token)  # as whoever shows it would
        end = time.perf_counter()
        return (first - start) * 1e3, (end - first) * 1e3 / max(tokens - 1, 1)


def check_plans():
    """Raises why a graph has no plan, such as that no farm runs: times would be the interpreter's."""
    from lfarm import compile as lfarm_compile

    if not all([one.has_plan() for one in lfarm_compile.instances()]):
        raise RuntimeError("a graph has no plan yet: wait longer, by the deadline of --session")


def measure(torch, transformers, model):
    longest = max(SPEC["prompts"]) + SPEC["tokens"]
    for length in SPEC["prompts"]:
        torch._dynamo.reset()
        ids = torch.randint(1, model.config.vocab_size, (1, length), device=SPEC["device"])
        compile_with = None if SPEC["way"] == "eager" else SPEC["way"]
        decoder = Decoder(torch, transformers, model, longest, compile_with)
        start = time.perf_counter()
        decoder.run(ids, 3)  # what changes from one single token to the next is known at the second one
        ready = time.perf_counter() - start
        decoder.run(ids, 3)
        if SPEC["way"] == "lfarm":
            check_plans()
        runs = [decoder.run(ids, SPEC["tokens"]) for _ in range(SPEC["samples"])]
        answer({"prompt_tokens": length, "ttft_ms": [run[0] for run in runs],
                "tpot_ms": [run[1] for run in runs], "plan_s": ready if compile_with else 0,
                "peak_mb": peak_mb(torch)})


class Exported:
    """Makes the two programs of one model: for prompts of any length, and for single tokens."""

    def __init__(self, torch, model):
        from transformers.integrations import executorch

        if getattr(model.config, "num_kv_shared_layers", None) == 0:
            # Of such a model transformers 5.12 takes the heads of no layer. All layers have the same here.
            executorch.get_head_shapes = lambda config: (config.num_key_value_heads, config.head_dim)
        model.generation_config.cache_implementation = "static"
        self.torch, self.longest = torch, max(SPEC["prompts"]) + SPEC["tokens"]
        self.module = executorch.TorchExportableModuleWithStaticCache(
            model, 1, self.longest, SPEC["device"])

    def program(self, width, dynamic):
        torch = self.torch
        example = {"input_ids": torch.ones(1, width, dtype=torch.long, device=SPEC["device"]),
                   "cache_position": torch.arange(width, device=SPEC["device"])}
        shapes = None
        if dynamic:
            tokens = torch.export.Dim("tokens", min=2, max=self.longest)
            shapes = {"input_ids": {1: tokens}, "cache_position": {0: tokens}}
        with torch.no_grad():
            exported = torch.export.export(self.module, (), example, dynamic_shapes=shapes, strict=False)
        content = io.BytesIO()
        torch.export.save(exported, content)
        return content.getvalue()


def main():
    try:
        import torch
        import transformers
    except ImportError as error:
        return answer({"missing": str(error)})
    torch.set_num_threads(SPEC["threads"])
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    if SPEC["device"] != "cpu":
        versions["cuda"] = torch.version.cuda or ""
    try:
        if SPEC["way"] == "lfarm":
            import lfarm

            versions["lfarm"] = lfarm.__version__
            with contextlib.suppress(ValueError, AssertionError):
                from lfarm import compile as lfarm_compile

                if "lfarm" not in torch._dynamo.list_backends():
                    torch._dynamo.register_backend(lfarm_compile.backend, name="lfarm")
    except ImportError as error:
        return answer({"missing": str(error)})
    try:
        model, shape = build(torch, transformers)
        answer({"ready": 1, "shape": shape, "versions": versions})
        if SPEC["way"] == "export":
            exported = Exported(torch, model)
            for name, width, dynamic in (("prompt", 8, True), ("decode", 1, False)):
                content = exported.program(width, dynamic)
                answer({"archive": name, "bytes": len(content), "words": model.config.vocab_size}, content)
            return None
        with torch.no_grad():
            measure(torch, transformers, model)
    except Exception as error:  # out of memory among others: a row and not the end
        lines = str(error).strip().splitlines() or [""]
        answer({"error": f"{type(error).__name__}: {lines[0]}"})
    return None


if __name__ == "__main__":
    main()
