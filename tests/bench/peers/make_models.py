"""Exports the models that `lfarm-bench models` compares, at sizes where the work of the kernels dominates.

Usage: make_models.py OUT_DIR [--dtype f32|bf16]... [NAME ...]

Needs torch, and transformers and torchvision for the models that carry their names. Weights are
random, from a seed that the name decides. Each model becomes a folder NAME_DTYPE with model.pt2,
inputs/N.npy, outputs/N.npy (what eager PyTorch gives for the first call) and meta.json, so that
`lfarm check` takes it as a case. bfloat16 arrays hold their bits as uint16.
"""
import argparse
import json
import os
import sys
import zlib

import numpy as np
import torch
from torch import nn

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# The greatest difference that passes is atol + rtol * |expected|.
TOLERANCES = {"f32": {"rtol": 1e-3, "atol": 1e-3}, "bf16": {"rtol": 5e-2, "atol": 5e-2}}
MODELS = {}


def model(name, only=tuple(DTYPES)):
    """Registers a function dtype -> (module, arguments) under a name."""
    def register(build):
        MODELS[name] = (build, only)
        return build
    return register


class Field(nn.Module):
    """One field of a Hugging Face model's answer, as the model's only output."""

    def __init__(self, inner, field):
        super().__init__()
        self.inner, self.field = inner, field

    def forward(self, x):
        return getattr(self.inner(x), self.field)


@model("gpt2_125m")
def gpt2_125m(dtype):
    from transformers import GPT2Config, GPT2LMHeadModel
    net = GPT2LMHeadModel(GPT2Config(use_cache=False))
    return Field(net, "logits"), (torch.randint(0, 50257, (1, 64)),)


@model("bert_base")
def bert_base(dtype):
    from transformers import BertConfig, BertModel
    return Field(BertModel(BertConfig()), "last_hidden_state"), (torch.randint(0, 30522, (1, 128)),)


@model("vit_b16")
def vit_b16(dtype):
    from transformers import ViTConfig, ViTForImageClassification
    return Field(ViTForImageClassification(ViTConfig(num_labels=1000)), "logits"), (torch.randn(1, 3, 224, 224, dtype=dtype),)


@model("resnet50")
def resnet50(dtype):
    import torchvision
    return torchvision.models.resnet50(weights=None), (torch.randn(1, 3, 224, 224, dtype=dtype),)


@model("mobilenet_v2")
def mobilenet_v2(dtype):
    import torchvision
    return torchvision.models.mobilenet_v2(weights=None), (torch.randn(1, 3, 224, 224, dtype=dtype),)


class DecodeStep(nn.Module):
    """One position through a stack of Llama layers; keys and values stay in buffers of fixed length."""

    def __init__(self, layers, config, positions, dtype):
        super().__init__()
        from transformers.cache_utils import StaticCache
        self.layers = layers
        self.cache = StaticCache(config=config, max_batch_size=1, max_cache_len=positions)
        head = config.hidden_size // config.num_attention_heads
        self.cache.early_initialization(1, config.num_key_value_heads, head, dtype, "cpu")
        for i, layer in enumerate(self.cache.layers):
            self.register_buffer(f"k{i}", layer.keys, persistent=False)
            self.register_buffer(f"v{i}", layer.values, persistent=False)

    def forward(self, x, position):
        for i, layer in enumerate(self.cache.layers):
            layer.keys, layer.values = getattr(self, f"k{i}"), getattr(self, f"v{i}")
        answer = self.layers(inputs_embeds=x, past_key_values=self.cache, cache_position=position,
                             position_ids=position[None], use_cache=True)
        return answer.last_hidden_state


@model("llama_1b_decode")
def llama_1b_decode(dtype):
    """Four of the sixteen layers of Llama 3.2 1B, 512 positions: 243 million weights, read once a call."""
    from transformers import LlamaConfig, LlamaModel
    config = LlamaConfig(hidden_size=2048, num_attention_heads=32, num_key_value_heads=8, num_hidden_layers=4,
                         intermediate_size=8192, vocab_size=8, max_position_embeddings=512)
    step = DecodeStep(LlamaModel(config).to(dtype), config, 512, dtype)
    return step, (torch.randn(1, 1, 2048, dtype=dtype), torch.tensor([0]))


class Mel(nn.Module):
    """Logarithmic mel spectrogram: frames of 25 ms every 10 ms at 16 kHz, 80 bands."""

    def __init__(self, window=400, hop=160, bands=80):
        super().__init__()
        self.window_length, self.hop = window, hop
        self.register_buffer("window", torch.hann_window(window))
        centres = torch.linspace(0, 2595 * float(np.log10(1 + 8000 / 700)), bands + 2)
        hz = 700 * (10 ** (centres / 2595) - 1)
        bins = torch.linspace(0, 8000, window // 2 + 1)
        rising = (bins - hz[:-2, None]) / (hz[1:-1] - hz[:-2])[:, None]
        falling = (hz[2:, None] - bins) / (hz[2:] - hz[1:-1])[:, None]
        self.register_buffer("bands", torch.minimum(rising, falling).clamp(min=0))

    def forward(self, x):
        frames = torch.stft(x, self.window_length, self.hop, window=self.window, return_complex=True)
        power = frames.real ** 2 + frames.imag ** 2
        return torch.log(torch.clamp(self.bands @ power, min=1e-10))


@model("mel", only=("f32",))
def mel(dtype):
    return Mel(), (torch.randn(4, 160000),)


class Welch(nn.Module):
    """Welch's power spectrum of half overlapping segments, and its largest bins."""

    def __init__(self, length=1024, peaks=8):
        super().__init__()
        self.length, self.peaks = length, peaks
        self.register_buffer("window", torch.hann_window(length))

    def forward(self, x):
        segments = x.unfold(-1, self.length, self.length // 2) * self.window
        spectrum = torch.fft.rfft(segments, dim=-1)
        density = (spectrum.real ** 2 + spectrum.imag ** 2).mean(-2) / (self.window ** 2).sum()
        values, bins = torch.topk(density, self.peaks, dim=-1)
        return density, values, bins


@model("welch", only=("f32",))
def welch(dtype):
    return Welch(), (torch.randn(8, 262144),)


def tensors(value):
    return [x for x in torch.utils._pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]


def save_arrays(folder, values):
    os.makedirs(folder, exist_ok=True)
    described = []
    for i, value in enumerate(values):
        value = value.detach().contiguous()
        described.append({"dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape)})
        if value.dtype == torch.bfloat16:
            value = value.view(torch.uint16)
        np.save(os.path.join(folder, f"{i}.npy"), value.numpy())
    return described


def save(out, name, dtype_name):
    build, only = MODELS[name]
    if dtype_name not in only:
        return f"{name} has no {dtype_name} variant"
    dtype = DTYPES[dtype_name]
    folder = os.path.join(out, f"{name}_{dtype_name}")
    torch.manual_seed(zlib.crc32(name.encode()))
    module, arguments = build(dtype)
    module = module.to(dtype).eval()
    os.makedirs(folder, exist_ok=True)
    with torch.no_grad():
        program = torch.export.export(module, arguments, strict=False)
        torch.export.save(program, os.path.join(folder, "model.pt2"))
        meta = {"name": f"{name}_{dtype_name}", "torch": torch.__version__, "decomposed": False,
                "tolerance": TOLERANCES[dtype_name]}
        meta["inputs"] = save_arrays(os.path.join(folder, "inputs"), arguments)
        answer = program.module()(*[x.clone() for x in arguments])
        meta["outputs"] = save_arrays(os.path.join(folder, "outputs"), tensors(answer))
    with open(os.path.join(folder, "meta.json"), "w") as file:
        json.dump(meta, file, indent=1)
    return f"{name}_{dtype_name}: {os.path.getsize(os.path.join(folder, 'model.pt2')) >> 20} MiB"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("names", nargs="*", help=", ".join(MODELS))
    parser.add_argument("--dtype", action="append", choices=DTYPES)
    options = parser.parse_args()
    failed = 0
    for name in options.names or MODELS:
        for dtype_name in options.dtype or DTYPES:
            try:
                print(save(options.out, name, dtype_name), flush=True)
            except Exception as error:  # the other models are still worth having
                failed += 1
                print(f"{name}_{dtype_name}: {type(error).__name__}: {str(error).splitlines()[:1]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
