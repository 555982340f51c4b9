"""Models of the kinds that the compiler's own tests do not hold: recurrent and residual nets, audio, tables.

They tell what a search reaches from nothing on a graph that nobody tuned for
(docs/measurements/models/2026-11-23-models-nobody-tuned.md). Weights are random.
"""
import torch
from torch import nn

from registry import model

FLOAT32 = ("f32",)


class Recurrent(nn.Module):
    """A recurrent net that answers with the outputs of all steps: [batch, steps, features] -> [batch, steps, units]."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)[0]


def lstm(batch):
    return Recurrent(nn.LSTM(512, 512, num_layers=2, batch_first=True)), (torch.randn(batch, 64, 512),)


@model("lstm_b1", FLOAT32, "untuned")
def lstm_b1(dtype):
    return lstm(1)


@model("lstm_b8", FLOAT32, "untuned")
def lstm_b8(dtype):
    return lstm(8)


@model("gru_b8", FLOAT32, "untuned")
def gru_b8(dtype):
    return Recurrent(nn.GRU(256, 256, batch_first=True)), (torch.randn(8, 48, 256),)


def resnet18(batch):
    import torchvision
    return torchvision.models.resnet18(weights=None), (torch.randn(batch, 3, 224, 224),)


@model("resnet18_b1", FLOAT32, "untuned")
def resnet18_b1(dtype):
    return resnet18(1)


@model("resnet18_b8", FLOAT32, "untuned")
def resnet18_b8(dtype):
    return resnet18(8)


class Rows(nn.Module):
    """Norms, activations and sums over both axes of a matrix: 12.6 million values of vector functions."""

    def __init__(self, width):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])

    def forward(self, x):
        y = nn.functional.gelu(self.norms[0](x))
        y = x + self.norms[1](y) * torch.sigmoid(y)
        y = nn.functional.gelu(self.norms[2](y))
        return y, y.sum(-1), y.sum(0)


@model("rows", FLOAT32, "untuned")
def rows(dtype):
    return Rows(1024), (torch.randn(4096, 1024),)


class Block2d(nn.Module):
    """Two convolutions of 3 x 3 with group norms and SiLU, and a residual sum."""

    def __init__(self, before, after):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, before), nn.GroupNorm(8, after)
        self.first = nn.Conv2d(before, after, 3, padding=1)
        self.second = nn.Conv2d(after, after, 3, padding=1)
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x):
        y = self.first(nn.functional.silu(self.norm1(x)))
        return self.skip(x) + self.second(nn.functional.silu(self.norm2(y)))


class Attention2d(nn.Module):
    """Attention of four heads between the places of an image."""

    def __init__(self, channels, heads=4):
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(8, channels), heads
        self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, 3, self.heads, c // self.heads, h * w).transpose(-1, -2).unbind(1)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(-1, -2).reshape(n, c, h, w))


class UNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList([Block2d(width, width), Block2d(width, 2 * width), Block2d(2 * width, 4 * width)])
        self.middle = nn.Sequential(Block2d(4 * width, 4 * width), Attention2d(4 * width), Block2d(4 * width, 4 * width))
        self.up = nn.ModuleList([Block2d(8 * width, 2 * width), Block2d(4 * width, width), Block2d(2 * width, width)])
        self.head = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x):
        x = self.stem(x)
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = nn.functional.avg_pool2d(x, 2)
        x = self.middle(x)
        for block in self.up:
            x = nn.functional.interpolate(x, scale_factor=2, mode="nearest")
            x = block(torch.cat([x, kept.pop()], 1))
        return self.head(x)


@model("unet", FLOAT32, "untuned")
def unet(dtype):
    return UNet(), (torch.randn(1, 3, 64, 64),)


class EncoderLayer(nn.Module):
    """A layer of a speech encoder: norms first, exact gelu."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, c))
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm2(x))))


class SpeechEncoder(nn.Module):
    """Two convolutions over mel bands and four layers: [1, 80, 3000] -> [1, 1500, 384]."""

    def __init__(self, width=384, layers=4):
        super().__init__()
        self.first = nn.Conv1d(80, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.positions = nn.Parameter(0.02 * torch.randn(1500, width))
        self.layers = nn.Sequential(*[EncoderLayer(width, 6) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        x = nn.functional.gelu(self.second(nn.functional.gelu(self.first(x))))
        return self.norm(self.layers(x.transpose(1, 2) + self.positions))


@model("speech", FLOAT32, "untuned")
def speech(dtype):
    return SpeechEncoder(), (torch.randn(1, 80, 3000),)


class Tables(nn.Module):
    """Eight embedding tables and dense features, their products by pairs, and dense layers."""

    def __init__(self, tables=8, words=100000, width=64):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(words, width) for _ in range(tables)])
        self.dense = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.register_buffer("pairs", torch.triu_indices(tables + 1, tables + 1, 1))
        self.top = nn.Sequential(nn.Linear(width + pairs, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, dense, indices):
        first = self.dense(dense)
        features = torch.stack([first] + [table(indices[:, i]) for i, table in enumerate(self.tables)], 1)
        products = features @ features.transpose(1, 2)
        return torch.sigmoid(self.top(torch.cat([first, products[:, self.pairs[0], self.pairs[1]]], 1)))


@model("tables", FLOAT32, "untuned")
def tables(dtype):
    return Tables(), (torch.randn(32, 13), torch.randint(0, 100000, (32, 8)))


class Dilated(nn.Module):
    """Residual blocks of causal convolutions whose dilation doubles: [8, 64, 512] -> [8, 64, 512]."""

    def __init__(self, channels=64, blocks=6):
        super().__init__()
        self.blocks = nn.ModuleList([
            nn.ModuleList([nn.Conv1d(channels, channels, 3, dilation=2 ** i) for _ in range(2)]) for i in range(blocks)])

    def forward(self, x):
        for i, (first, second) in enumerate(self.blocks):
            pad = (2 * 2 ** i, 0)
            y = nn.functional.relu(first(nn.functional.pad(x, pad)))
            x = nn.functional.relu(x + nn.functional.relu(second(nn.functional.pad(y, pad))))
        return x


@model("tcn_b8", FLOAT32, "untuned")
def tcn_b8(dtype):
    return Dilated(), (torch.randn(8, 64, 512),)


class MixerLayer(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.channels = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, tokens=196, width=384, layers=6):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 16, stride=16)
        self.layers = nn.Sequential(*[MixerLayer(tokens, width) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.layers(x)).mean(1))


@model("mixer_b8", FLOAT32, "untuned")
def mixer_b8(dtype):
    return Mixer(), (torch.randn(8, 3, 224, 224),)


@model("mobilenet_v3", FLOAT32, "untuned")
def mobilenet_v3(dtype):
    import torchvision
    return torchvision.models.mobilenet_v3_large(weights=None), (torch.randn(1, 3, 224, 224),)
