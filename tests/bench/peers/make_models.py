"""Exports the models that `lfarm-bench models` compares, at sizes where the work of the kernels dominates.

Usage: make_models.py OUT_DIR [--dtype f32|bf16]... [--group peers|untuned|library|varied|further] [NAME ...]

Without names all models of the group are exported, by default those of docs/measurements/cpu.md; `untuned` are
those of untuned_models.py, `library` those of library_models.py, `varied` those of varied_models.py,
`further` those of further_models.py.

Needs torch, and transformers and torchvision for the models that carry their names. Weights are
random, from a seed that the name decides. Each model becomes a folder NAME_DTYPE with model.pt2,
inputs/N.npy, outputs/N.npy (what eager PyTorch gives for the first call) and meta.json, so that
`lfarm check` takes it as a case. bfloat16 arrays hold their bits as uint16.
"""
import argparse
import copy
import json
import os
import sys
import zlib

import numpy as np
import torch
from torch import nn

from registry import DTYPES, MODELS, model
import further_models, library_models, untuned_models, varied_models  # register their models

# The greatest difference that passes is atol + rtol * |expected|.
TOLERANCES = {"f32": {"rtol": 1e-3, "atol": 1e-3}, "bf16": {"rtol": 5e-2, "atol": 5e-2}}


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


class RmsNorm(nn.Module):
    """Written out, as models do that are older than PyTorch's operator."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = x.float()
        return self.weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


class LlamaLayer(nn.Module):
    """A Llama layer for one position, whose keys and values stay in buffers of fixed length."""

    def __init__(self, width, heads, groups, hidden, positions):
        super().__init__()
        head = width // heads
        self.shape = (groups, heads // groups, head)
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k, self.v = [nn.Linear(width, groups * head, bias=False) for _ in range(2)]
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = [nn.Linear(width, hidden, bias=False) for _ in range(2)]
        self.down = nn.Linear(hidden, width, bias=False)
        self.register_buffer("keys", torch.randn(1, groups, positions, head))
        self.register_buffer("values", torch.randn(1, groups, positions, head))

    def forward(self, x, position, mask, cos, sin):
        groups, share, head = self.shape
        y = self.norm1(x)

        def rotated(z):
            a, b = z.chunk(2, -1)
            return z * cos + torch.cat((-b, a), -1) * sin

        # The queries of one group are rows of one product with the group's keys.
        q = rotated(self.q(y).view(1, groups, share, head))
        self.keys.index_copy_(2, position, rotated(self.k(y).view(1, groups, 1, head)))
        self.values.index_copy_(2, position, self.v(y).view(1, groups, 1, head))
        attended = nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        x = x + self.o(attended.reshape(1, 1, -1))
        y = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class DecodeStep(nn.Module):
    """One position through a stack of layers, given as what embedding made of its token."""

    def __init__(self, layers, positions, width=2048, heads=32, groups=8, hidden=8192):
        super().__init__()
        self.layers = nn.ModuleList([LlamaLayer(width, heads, groups, hidden, positions) for _ in range(layers)])
        self.norm = RmsNorm(width)
        head = width // heads
        angles = torch.outer(torch.arange(positions), 500000.0 ** (-torch.arange(0, head, 2) / head))
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos())
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin())

    def forward(self, x, position):
        mask = (torch.arange(self.cos.shape[0]) <= position)[None]
        cos, sin = self.cos[position], self.sin[position]
        for layer in self.layers:
            x = layer(x, position, mask, cos, sin)
        return self.norm(x)


@model("llama_1b_decode")
def llama_1b_decode(dtype):
    """Four of the sixteen layers of Llama 3.2 1B at position 511: 243 million weights, read once a call."""
    return DecodeStep(4, 512), (torch.randn(1, 1, 2048, dtype=dtype), torch.tensor([511]))


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


def tolerance(dtype_name, answer, exact):
    """What a right result may differ by: of short types twice as much as eager differs from the same
    model in float32, since sums of large values that cancel keep the large ones' rounding."""
    usual = dict(TOLERANCES[dtype_name])
    errors = [(a.float() - e).abs().max().item() for a, e in zip(answer, exact) if a.is_floating_point()]
    usual["atol"] = max([usual["atol"]] + [2 * e for e in errors])
    return usual


def widened(value):
    return value.float() if value.is_floating_point() else value


def save(out, name, dtype_name):
    build, only, _ = MODELS[name]
    if dtype_name not in only:
        return f"{name} has no {dtype_name} variant"
    dtype = DTYPES[dtype_name]
    folder = os.path.join(out, f"{name}_{dtype_name}")
    torch.manual_seed(zlib.crc32(name.encode()))
    module, arguments = build(dtype)
    module = module.to(dtype).eval()
    wide = copy.deepcopy(module).float()
    os.makedirs(folder, exist_ok=True)
    with torch.no_grad():
        program = torch.export.export(module, arguments, strict=False)
        torch.export.save(program, os.path.join(folder, "model.pt2"))
        meta = {"name": f"{name}_{dtype_name}", "torch": torch.__version__, "decomposed": False}
        meta["inputs"] = save_arrays(os.path.join(folder, "inputs"), arguments)
        answer = program.module()(*[x.clone() for x in arguments])
        meta["outputs"] = save_arrays(os.path.join(folder, "outputs"), tensors(answer))
        exact = wide(*[widened(x) for x in arguments]) if dtype_name == "bf16" else answer
        meta["tolerance"] = tolerance(dtype_name, tensors(answer), tensors(exact))
    with open(os.path.join(folder, "meta.json"), "w") as file:
        json.dump(meta, file, indent=1)
    return f"{name}_{dtype_name}: {os.path.getsize(os.path.join(folder, 'model.pt2')) >> 20} MiB"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("names", nargs="*", help=", ".join(MODELS))
    parser.add_argument("--dtype", action="append", choices=DTYPES)
    parser.add_argument("--group", default="peers", choices=sorted({group for _, _, group in MODELS.values()}))
    options = parser.parse_args()
    failed = 0
    for name in options.names or [name for name, entry in MODELS.items() if entry[2] == options.group]:
        for dtype_name in options.dtype or DTYPES:
            try:
                print(save(options.out, name, dtype_name), flush=True)
            except Exception as error:  # the other models are still worth having
                failed += 1
                print(f"{name}_{dtype_name}: {type(error).__name__}: {str(error).splitlines()[:1]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
