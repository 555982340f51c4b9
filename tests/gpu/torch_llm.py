#!/usr/bin/env python3
"""torch_llm.py [--models NAME,...] [--ways NAME,...] [--prompt N] [--cache N]: what PyTorch takes on
this machine's GPU for one decoding step and for one prompt of language models, with random bfloat16
weights, one JSON object a line.

Shapes are those of Llama-3-8B, Qwen3-4B, Gemma-3-4B and Qwen3-30B-A3B. Attention is PyTorch's own
(scaled_dot_product_attention), the cache static. Times are medians of the device's events; a step
reads more than any cache holds. Exits 3 where PyTorch, transformers or the GPU is missing."""

import argparse
import fcntl
import json
import os
import statistics
import sys
import time

try:
    import torch
    from transformers import (Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM, Qwen3Config,
                              Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM)
    from transformers.cache_utils import StaticCache
except ImportError as error:
    print(f"torch_llm: {error}", file=sys.stderr)
    sys.exit(3)

RUNS = 20
# Of workers that measure on the first GPU.
LOCK = "/tmp/lfarm-locks/cuda.lock"

MODELS = {
    "llama3_8b": (LlamaForCausalLM, lambda: LlamaConfig(
        vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, max_position_embeddings=8192, rms_norm_eps=1e-5)),
    "qwen3_4b": (Qwen3ForCausalLM, lambda: Qwen3Config(
        vocab_size=151936, hidden_size=2560, intermediate_size=9728, num_hidden_layers=36, num_attention_heads=32,
        num_key_value_heads=8, head_dim=128, tie_word_embeddings=True)),
    "gemma3_4b": (Gemma3ForCausalLM, lambda: Gemma3TextConfig(
        vocab_size=262208, hidden_size=2560, intermediate_size=10240, num_hidden_layers=34, num_attention_heads=8,
        num_key_value_heads=4, head_dim=256, sliding_window=1024)),
    "qwen3_30b_a3b": (Qwen3MoeForCausalLM, lambda: Qwen3MoeConfig(
        vocab_size=151936, hidden_size=2048, intermediate_size=6144, num_hidden_layers=48, num_attention_heads=32,
        num_key_value_heads=4, head_dim=128, num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768)),
}
COMPILED = {"eager": None, "compile": {}, "compile_graph": {}, "compile_reduce_overhead": {"mode": "reduce-overhead"},
            "compile_max_autotune": {"mode": "max-autotune"}}


def captured(call):
    """The call as a CUDA graph, replayed."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


class Alone:
    """While nothing else is measured on the GPU."""

    def __enter__(self):
        os.makedirs(os.path.dirname(LOCK), exist_ok=True)
        self.file = open(LOCK, "a+")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *error):
        self.file.close()


def median_us(call):
    for _ in range(4):
        call()
    torch.cuda.synchronize()
    times = []
    with Alone():
        for _ in range(RUNS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


def make(name):
    cls, config = MODELS[name]
    config = config()
    config._attn_implementation = "sdpa"
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = cls(config).eval()
    torch.set_default_dtype(torch.float32)
    return model, config


def measure(name, way, options):
    model, config = make(name)
    cache = StaticCache(config=config, max_batch_size=1, max_cache_len=options.cache)
    position = torch.tensor([options.cache // 2], device="cuda")
    token = torch.zeros(1, 1, dtype=torch.long, device="cuda")
    prompt = torch.zeros(1, options.prompt, dtype=torch.long, device="cuda")
    step = model.forward
    whole = lambda ids: model(ids, use_cache=False).logits
    if COMPILED[way] is not None:
        step, whole = (torch.compile(f, dynamic=False, **COMPILED[way]) for f in (step, whole))
    line = {"model": name, "way": way, "torch": torch.__version__, "prompt": options.prompt, "cache": options.cache}

    def decode():
        return step(token, past_key_values=cache, cache_position=position, position_ids=position[None],
                    use_cache=True).logits

    for what, call in (("decode", decode), ("prompt", lambda: whole(prompt))):
        if what not in options.what.split(","):
            continue
        start = time.perf_counter()
        try:
            with torch.no_grad():
                call()
                torch.cuda.synchronize()
                line[what + "_ready_s"] = round(time.perf_counter() - start, 1)
                call = captured(call) if way == "compile_graph" else call
                line[what + "_us"] = round(median_us(call), 1)
        except Exception as error:  # whatever PyTorch raises is this way's result
            line[what + "_error"] = f"{type(error).__name__}: {error}".split("\n")[0][:200]
    print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--ways", default="eager,compile_graph")
    parser.add_argument("--what", default="decode,prompt")
    parser.add_argument("--prompt", type=int, default=2048)
    parser.add_argument("--cache", type=int, default=1024)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("torch_llm: this PyTorch sees no GPU", file=sys.stderr)
        return 3
    for name in options.models.split(","):
        for way in options.ways.split(","):
            try:
                measure(name, way, options)
            except Exception as error:  # one model's trouble must not hide the others
                print(json.dumps({"model": name, "way": way, "error": f"{type(error).__name__}: {error}".split("\n")[0][:200]}), flush=True)
            torch._dynamo.reset()
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
