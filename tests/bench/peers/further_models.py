"""Kinds that the other sets lack: detection, simulation, operators on fields, sequences decoded step by step, tables.

A fourth set, chosen after the compiler was tuned with the other three. Weights are random.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

from registry import model

FLOAT32 = ("f32",)


class ConvBlock(nn.Sequential):
    """Convolution, batch norm and SiLU."""

    def __init__(self, before, after, taps=1, stride=1):
        super().__init__(nn.Conv2d(before, after, taps, stride, taps // 2, bias=False), nn.BatchNorm2d(after), nn.SiLU())


class Split(nn.Module):
    """Cross-stage partial block: halves of the channels, one of which runs through bottlenecks."""

    def __init__(self, before, after, repeats, residual):
        super().__init__()
        self.half, self.residual = after // 2, residual
        self.first = ConvBlock(before, after)
        self.blocks = nn.ModuleList(
            [nn.Sequential(ConvBlock(self.half, self.half, 3), ConvBlock(self.half, self.half, 3)) for _ in range(repeats)])
        self.last = ConvBlock((2 + repeats) * self.half, after)

    def forward(self, x):
        parts = list(self.first(x).split(self.half, 1))
        for block in self.blocks:
            y = block(parts[-1])
            parts.append(parts[-1] + y if self.residual else y)
        return self.last(torch.cat(parts, 1))


class Detector(nn.Module):
    """One-stage detector of three scales: images [batch, 3, 320, 320] -> boxes [batch, 4, places], scores [batch, 80, places]."""

    def __init__(self, width=16, classes=80, bins=16):
        super().__init__()
        w, self.bins, self.classes = width, bins, classes
        self.stem = nn.Sequential(ConvBlock(3, w, 3, 2), ConvBlock(w, 2 * w, 3, 2), Split(2 * w, 2 * w, 1, True))
        self.third = nn.Sequential(ConvBlock(2 * w, 4 * w, 3, 2), Split(4 * w, 4 * w, 2, True))
        self.fourth = nn.Sequential(ConvBlock(4 * w, 8 * w, 3, 2), Split(8 * w, 8 * w, 2, True))
        self.fifth = nn.Sequential(ConvBlock(8 * w, 16 * w, 3, 2), Split(16 * w, 16 * w, 1, True))
        self.before_pool, self.after_pool = ConvBlock(16 * w, 8 * w), ConvBlock(32 * w, 16 * w)
        self.up4, self.up3 = Split(24 * w, 8 * w, 1, False), Split(12 * w, 4 * w, 1, False)
        self.down3, self.down4 = ConvBlock(4 * w, 4 * w, 3, 2), ConvBlock(8 * w, 8 * w, 3, 2)
        self.out4, self.out5 = Split(12 * w, 8 * w, 1, False), Split(24 * w, 16 * w, 1, False)
        self.boxes, self.scores = nn.ModuleList(), nn.ModuleList()
        for given in (4 * w, 8 * w, 16 * w):
            self.boxes.append(nn.Sequential(ConvBlock(given, 64, 3), ConvBlock(64, 64, 3), nn.Conv2d(64, 4 * bins, 1)))
            self.scores.append(nn.Sequential(ConvBlock(given, 64, 3), ConvBlock(64, 64, 3), nn.Conv2d(64, classes, 1)))

    def forward(self, x):
        third = self.third(self.stem(x))
        fourth = self.fourth(third)
        y = self.before_pool(self.fifth(fourth))
        pools = [y]
        for _ in range(3):
            pools.append(F.max_pool2d(pools[-1], 5, 1, 2))
        fifth = self.after_pool(torch.cat(pools, 1))
        mid = self.up4(torch.cat([F.interpolate(fifth, scale_factor=2.0), fourth], 1))
        low = self.up3(torch.cat([F.interpolate(mid, scale_factor=2.0), third], 1))
        mid = self.out4(torch.cat([self.down3(low), mid], 1))
        high = self.out5(torch.cat([self.down4(mid), fifth], 1))
        boxes, scores = [], []
        for y, box, score, stride in zip((low, mid, high), self.boxes, self.scores, (8, 16, 32)):
            size = y.shape[-1]
            at = (torch.arange(size, dtype=torch.float32) + 0.5)
            places = torch.stack(torch.meshgrid(at, at, indexing="ij")[::-1]).reshape(2, -1)
            sides = box(y).reshape(-1, 4, self.bins, size * size).softmax(2)
            sides = (sides * torch.arange(self.bins, dtype=torch.float32)[:, None]).sum(2)
            least, most = places - sides[:, :2], places + sides[:, 2:]
            boxes.append(torch.cat([(least + most) / 2, most - least], 1) * stride)
            scores.append(score(y).flatten(2).sigmoid())
        return torch.cat(boxes, 2), torch.cat(scores, 2)


@model("detector", FLOAT32, "further")
def detector(dtype):
    return Detector(), (torch.randn(1, 3, 320, 320),)


class SetDetector(nn.Module):
    """Images [batch, 3, 256, 256] -> classes [batch, 100, 92] and boxes [batch, 100, 4] of learned queries."""

    def __init__(self, width=256):
        super().__init__()
        widths = [3, 32, 64, 128, 256]
        self.backbone = nn.Sequential(*[nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.GroupNorm(8, b), nn.ReLU())
                                        for a, b in zip(widths, widths[1:])])
        self.transformer = nn.Transformer(width, 8, 3, 3, 1024, 0.0, batch_first=True)
        self.queries = nn.Parameter(torch.randn(100, width))
        self.rows, self.columns = nn.Parameter(torch.randn(16, width // 2)), nn.Parameter(torch.randn(16, width // 2))
        self.classes, self.boxes = nn.Linear(width, 92), nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, x):
        x = self.backbone(x)
        places = torch.cat([self.columns[None].expand(16, 16, -1), self.rows[:, None].expand(16, 16, -1)], -1).flatten(0, 1)
        found = self.transformer(x.flatten(2).transpose(1, 2) + places, self.queries.expand(x.shape[0], -1, -1))
        return self.classes(found), self.boxes(found).sigmoid()


@model("set_detector", FLOAT32, "further")
def set_detector(dtype):
    return SetDetector(), (torch.randn(1, 3, 256, 256),)


class Codebook(nn.Module):
    """Images [batch, 3, 64, 64] -> codes of a codebook of 512 [batch, 16, 16] and the images that they stand for."""

    def __init__(self, width=128):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 4, 2, 1), nn.ReLU(),
                                     nn.Conv2d(width, 64, 3, 1, 1))
        self.codes = nn.Embedding(512, 64)
        self.decoder = nn.Sequential(nn.Conv2d(64, width, 3, 1, 1), nn.ReLU(), nn.ConvTranspose2d(width, width, 4, 2, 1),
                                     nn.ReLU(), nn.ConvTranspose2d(width, 3, 4, 2, 1))

    def forward(self, x):
        x = self.encoder(x).permute(0, 2, 3, 1)
        table = self.codes.weight
        distances = (x ** 2).sum(-1, keepdim=True) - 2 * x @ table.t() + (table ** 2).sum(1)
        codes = distances.argmin(-1)
        return codes, self.decoder(self.codes(codes).permute(0, 3, 1, 2))


@model("codebook_b8", FLOAT32, "further")
def codebook_b8(dtype):
    return Codebook(), (torch.randn(8, 3, 64, 64),)


class ConvolutionalLstm(nn.Module):
    """Frames [batch, steps, 1, 32, 32] -> the next frame, by a recurrence whose products are convolutions."""

    def __init__(self, width=32):
        super().__init__()
        self.width = width
        self.gates = nn.Conv2d(1 + width, 4 * width, 3, padding=1)
        self.last = nn.Conv2d(width, 1, 1)

    def forward(self, frames):
        batch, steps = frames.shape[:2]
        h = frames.new_zeros(batch, self.width, 32, 32)
        c = h
        for step in range(steps):
            i, f, o, g = self.gates(torch.cat([frames[:, step], h], 1)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return self.last(h)


@model("conv_lstm_b4", FLOAT32, "further")
def conv_lstm_b4(dtype):
    return ConvolutionalLstm(), (torch.randn(4, 10, 1, 32, 32),)


class FourierOperator(nn.Module):
    """Neural operator on fields [batch, 3, 64, 64]: products of low frequencies' spectra, beside pointwise convolutions."""

    def __init__(self, width=32, modes=12):
        super().__init__()
        self.modes = modes
        self.first, self.last = nn.Conv2d(3, width, 1), nn.Sequential(nn.Conv2d(width, 128, 1), nn.GELU(), nn.Conv2d(128, 1, 1))
        self.low = nn.ParameterList([nn.Parameter(torch.randn(width, width, modes, modes, 2) / width) for _ in range(4)])
        self.high = nn.ParameterList([nn.Parameter(torch.randn(width, width, modes, modes, 2) / width) for _ in range(4)])
        self.direct = nn.ModuleList([nn.Conv2d(width, width, 1) for _ in range(4)])

    def forward(self, x):
        x = self.first(x)
        m = self.modes
        for low, high, direct in zip(self.low, self.high, self.direct):
            spectrum = torch.fft.rfft2(x)
            top = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], torch.view_as_complex(low))
            bottom = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], torch.view_as_complex(high))
            height, half = spectrum.shape[-2:]
            middle = F.pad(top, (0, half - m, 0, height - 2 * m))
            out = torch.cat([middle[:, :, : height - m], F.pad(bottom, (0, half - m))], 2)
            x = F.gelu(torch.fft.irfft2(out, s=(64, 64)) + direct(x))
        return self.last(x)


@model("fourier_operator_b4", FLOAT32, "further")
def fourier_operator_b4(dtype):
    return FourierOperator(), (torch.randn(4, 3, 64, 64),)


class LongConvolutions(nn.Module):
    """Hyena's operator: gates and implicit convolutions as long as the sequence [batch, 1024, 256]."""

    def __init__(self, width=256, length=1024, layers=2):
        super().__init__()
        self.given = nn.ModuleList([nn.Linear(width, 3 * width) for _ in range(layers)])
        self.short = nn.ModuleList([nn.Conv1d(3 * width, 3 * width, 3, padding=2, groups=3 * width) for _ in range(layers)])
        self.filters = nn.ModuleList([nn.Sequential(nn.Linear(33, 64), nn.GELU(), nn.Linear(64, width)) for _ in range(layers)])
        self.last = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])
        time = torch.linspace(0, 1, length)[:, None]
        waves = torch.arange(1, 17) * math.pi * 2 * time
        self.register_buffer("time", torch.cat([time, waves.sin(), waves.cos()], 1))
        self.register_buffer("decay", torch.exp(-time * torch.linspace(1, 8, width)))

    def forward(self, x):
        length = x.shape[1]
        for given, short, filters, last in zip(self.given, self.short, self.filters, self.last):
            q, k, v = short(given(x).transpose(1, 2))[..., :length].chunk(3, 1)
            response = (filters(self.time) * self.decay).t()
            spectrum = torch.fft.rfft(k * v, 2 * length) * torch.fft.rfft(response, 2 * length)
            y = q * torch.fft.irfft(spectrum, 2 * length)[..., :length]
            x = x + last(y.transpose(1, 2))
        return x


@model("long_convolutions_b2", FLOAT32, "further")
def long_convolutions_b2(dtype):
    return LongConvolutions(), (torch.randn(2, 1024, 256),)


class LinearAttention(nn.Module):
    """Time mixing of RWKV: a state a channel that decays, over words [batch, 96, 256]."""

    def __init__(self, width=256, layers=2):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2 * layers)])
        self.given = nn.ModuleList([nn.Linear(width, 3 * width) for _ in range(layers)])
        self.last = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])
        self.up = nn.ModuleList([nn.Linear(width, 4 * width) for _ in range(layers)])
        self.down = nn.ModuleList([nn.Linear(4 * width, width) for _ in range(layers)])
        self.decay, self.first = nn.Parameter(torch.rand(layers, width)), nn.Parameter(torch.rand(layers, width))

    def forward(self, x):
        for layer in range(len(self.given)):
            y = self.norms[2 * layer](x)
            before = F.pad(y, (0, 0, 1, 0))[:, :-1]
            k, v, r = self.given[layer](0.5 * (y + before)).chunk(3, -1)
            decay, first = torch.exp(-torch.exp(self.decay[layer])), torch.exp(self.first[layer])
            k = torch.exp(k.clamp(-8, 8))
            top = bottom = torch.zeros_like(k[:, 0])
            outs = []
            for step in range(x.shape[1]):
                kv = k[:, step] * v[:, step]
                outs.append((top + first * kv) / (bottom + first * k[:, step]))
                top, bottom = decay * top + kv, decay * bottom + k[:, step]
            x = x + self.last[layer](torch.stack(outs, 1) * r.sigmoid())
            y = self.norms[2 * layer + 1](x)
            x = x + self.down[layer](self.up[layer](y).relu().square())
        return x


@model("linear_attention_b4", FLOAT32, "further")
def linear_attention_b4(dtype):
    return LinearAttention(), (torch.randn(4, 96, 256),)


class Translator(nn.Module):
    """A GRU that reads 24 words and a cell that writes 16 with additive attention over what was read."""

    def __init__(self, words=4000, width=256):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.cell = nn.GRUCell(2 * width, width)
        self.query, self.key, self.score = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)
        self.last = nn.Linear(width, words)

    def forward(self, source, target):
        read, h = self.encoder(self.words(source))
        h, keys, given = h[0], self.key(read), self.words(target)
        outs = []
        for step in range(target.shape[1]):
            weights = self.score(torch.tanh(self.query(h)[:, None] + keys)).softmax(1)
            h = self.cell(torch.cat([given[:, step], (weights * read).sum(1)], -1), h)
            outs.append(h)
        return self.last(torch.stack(outs, 1)).log_softmax(-1)


@model("translator_b16", FLOAT32, "further")
def translator_b16(dtype):
    return Translator(), (torch.randint(0, 4000, (16, 24)), torch.randint(0, 4000, (16, 16)))


class TextReader(nn.Module):
    """Lines of text [batch, 1, 32, 160] -> log probabilities of letters [41, batch, 80]."""

    def __init__(self):
        super().__init__()
        def block(a, b, taps=3, pad=1):
            return nn.Sequential(nn.Conv2d(a, b, taps, 1, pad), nn.BatchNorm2d(b), nn.ReLU())
        self.convolutions = nn.Sequential(
            block(1, 64), nn.MaxPool2d(2), block(64, 128), nn.MaxPool2d(2), block(128, 256), block(256, 256),
            nn.MaxPool2d((2, 2), (2, 1), (0, 1)), block(256, 256), nn.MaxPool2d((2, 2), (2, 1), (0, 1)), block(256, 256, 2, 0))
        self.rnn = nn.LSTM(256, 128, 2, bidirectional=True)
        self.last = nn.Linear(256, 80)

    def forward(self, x):
        x = self.convolutions(x).squeeze(2).permute(2, 0, 1)
        return self.last(self.rnn(x)[0]).log_softmax(-1)


@model("text_reader_b8", FLOAT32, "further")
def text_reader_b8(dtype):
    return TextReader(), (torch.randn(8, 1, 32, 160),)


class Interests(nn.Module):
    """Clicks predicted by attention of a candidate over a user's history of 50: ids -> probabilities [batch]."""

    def __init__(self, items=50000, width=64):
        super().__init__()
        self.items, self.users = nn.Embedding(items, width), nn.Embedding(1000, width)
        self.attention = nn.Sequential(nn.Linear(4 * width, 80), nn.Sigmoid(), nn.Linear(80, 40), nn.Sigmoid(), nn.Linear(40, 1))
        self.last = nn.Sequential(nn.Linear(3 * width, 200), nn.PReLU(), nn.Linear(200, 80), nn.PReLU(), nn.Linear(80, 1))

    def forward(self, user, item, history, length):
        candidate, past = self.items(item), self.items(history)
        query = candidate[:, None].expand_as(past)
        scores = self.attention(torch.cat([query, past, query - past, query * past], -1)).squeeze(-1)
        mask = torch.arange(history.shape[1]) < length[:, None]
        weights = scores.masked_fill(~mask, -1e9).softmax(-1)
        interest = torch.bmm(weights[:, None], past).squeeze(1)
        return self.last(torch.cat([self.users(user), candidate, interest], -1)).sigmoid().squeeze(-1)


@model("interests_b64", FLOAT32, "further")
def interests_b64(dtype):
    return Interests(), (torch.randint(0, 1000, (64,)), torch.randint(0, 50000, (64,)), torch.randint(0, 50000, (64, 50)),
                         torch.randint(1, 50, (64,)))


class WaveNet(nn.Module):
    """Gated causal convolutions of doubling distance over samples' classes [batch, 2048]."""

    def __init__(self, width=64, layers=20):
        super().__init__()
        self.given = nn.Embedding(256, width)
        self.gates = nn.ModuleList([nn.Conv1d(width, 2 * width, 2, dilation=2 ** (k % 10)) for k in range(layers)])
        self.skips = nn.ModuleList([nn.Conv1d(width, 2 * width, 1) for _ in range(layers)])
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, 256, 1))

    def forward(self, x):
        x = self.given(x).transpose(1, 2)
        total = 0
        for gate, skip in zip(self.gates, self.skips):
            a, b = gate(F.pad(x, (gate.dilation[0], 0))).chunk(2, 1)
            out, more = skip(a.tanh() * b.sigmoid()).chunk(2, 1)
            x, total = x + out, total + more
        return self.last(total)


@model("wavenet", FLOAT32, "further")
def wavenet(dtype):
    return WaveNet(), (torch.randint(0, 256, (1, 2048)),)


class OpticalFlow(nn.Module):
    """Two images [batch, 3, 128, 128] -> flow [batch, 2, 16, 16]: correlations of all pairs, looked up and refined 4 times."""

    def __init__(self, width=96, radius=3):
        super().__init__()
        self.radius = radius
        self.encoder = nn.Sequential(nn.Conv2d(3, 32, 7, 2, 3), nn.InstanceNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1),
                                     nn.InstanceNorm2d(64), nn.ReLU(), nn.Conv2d(64, width, 3, 2, 1))
        taps = (2 * radius + 1) ** 2
        self.z, self.r, self.q = (nn.Conv2d(2 * width + taps + 2, width, 3, padding=1) for _ in range(3))
        self.flow = nn.Sequential(nn.Conv2d(width, 128, 3, padding=1), nn.ReLU(), nn.Conv2d(128, 2, 3, padding=1))

    def forward(self, first, second):
        a, b = self.encoder(first), self.encoder(second)
        batch, width, height, across = a.shape
        pairs = torch.einsum("bchw,bcij->bhwij", a, b).reshape(-1, 1, height, across) / math.sqrt(width)
        ys, xs = torch.meshgrid(torch.arange(height, dtype=torch.float32), torch.arange(across, dtype=torch.float32), indexing="ij")
        at = torch.stack([xs, ys], -1)[None]
        side = torch.arange(-self.radius, self.radius + 1, dtype=torch.float32)
        near = torch.stack(torch.meshgrid(side, side, indexing="xy"), -1)
        flow = a.new_zeros(batch, 2, height, across)
        h, context = torch.tanh(a), F.relu(a)
        for _ in range(4):
            where = (at + flow.permute(0, 2, 3, 1)).reshape(-1, 1, 1, 2) + near
            where = 2 * where / (height - 1) - 1
            seen = F.grid_sample(pairs, where, align_corners=True).reshape(batch, height, across, -1).permute(0, 3, 1, 2)
            x = torch.cat([context, seen, flow], 1)
            z, r = self.z(torch.cat([h, x], 1)).sigmoid(), self.r(torch.cat([h, x], 1)).sigmoid()
            h = (1 - z) * h + z * self.q(torch.cat([r * h, x], 1)).tanh()
            flow = flow + self.flow(h)
        return flow


@model("optical_flow", FLOAT32, "further")
def optical_flow(dtype):
    return OpticalFlow(), (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128))


class Table(nn.Module):
    """A transformer over a table's columns: 20 numbers and 8 categories a row -> one value."""

    def __init__(self, width=192, layers=3):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(20, width)), nn.Parameter(torch.randn(20, width))
        self.categories = nn.ModuleList([nn.Embedding(50, width) for _ in range(8)])
        self.answer = nn.Parameter(torch.randn(1, 1, width))
        layer = nn.TransformerEncoderLayer(width, 8, 256, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.last = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, numbers, categories):
        rows = [self.answer.expand(len(numbers), -1, -1), numbers[..., None] * self.weight + self.bias]
        rows += [table(categories[:, k])[:, None] for k, table in enumerate(self.categories)]
        return self.last(self.layers(torch.cat(rows, 1))[:, 0])


@model("table_b32", FLOAT32, "further")
def table_b32(dtype):
    return Table(), (torch.randn(32, 20), torch.randint(0, 50, (32, 8)))


class Forecast(nn.Module):
    """N-BEATS: blocks that subtract what they explain of a series [batch, 120] and add to its next 24 values."""

    def __init__(self, width=256, blocks=12):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(120, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                                   nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
                                     for _ in range(blocks)])
        self.back = nn.ModuleList([nn.Linear(width, 120) for _ in range(blocks)])
        self.forth = nn.ModuleList([nn.Linear(width, 24) for _ in range(blocks)])

    def forward(self, x):
        level = x.abs().amax(1, keepdim=True) + 1e-6
        x, total = x / level, 0
        for block, back, forth in zip(self.blocks, self.back, self.forth):
            y = block(x)
            x, total = x - back(y), total + forth(y)
        return total * level


@model("forecast_b1", FLOAT32, "further")
def forecast_b1(dtype):
    return Forecast(), (torch.randn(1, 120),)


@model("forecast_b256", FLOAT32, "further")
def forecast_b256(dtype):
    return Forecast(), (torch.randn(256, 120),)


class GraphAttention(nn.Module):
    """Two layers of graph attention, 8 heads: 4,000 nodes, 24,000 edges; softmax over each node's edges."""

    def __init__(self, given=128, width=64, heads=8):
        super().__init__()
        self.heads = heads
        self.layers = nn.ModuleList([nn.Linear(given, heads * width), nn.Linear(heads * width, heads * width)])
        self.source = nn.ParameterList([nn.Parameter(torch.randn(heads, width) / 8) for _ in range(2)])
        self.target = nn.ParameterList([nn.Parameter(torch.randn(heads, width) / 8) for _ in range(2)])
        self.last = nn.Linear(heads * width, 40)

    def forward(self, x, edges):
        source, target = edges[0], edges[1]
        nodes = x.shape[0]
        for layer, a, b in zip(self.layers, self.source, self.target):
            h = layer(x).view(nodes, self.heads, -1)
            score = F.leaky_relu((h * a).sum(-1)[source] + (h * b).sum(-1)[target], 0.2)
            at = target[:, None].expand(-1, self.heads)
            most = score.new_full((nodes, self.heads), -1e9).scatter_reduce(0, at, score, "amax")
            weight = torch.exp(score - most[target])
            total = score.new_zeros(nodes, self.heads).index_add(0, target, weight)
            weight = weight / (total[target] + 1e-9)
            x = F.elu(h.new_zeros(h.shape).index_add(0, target, h[source] * weight[..., None])).flatten(1)
        return self.last(x).log_softmax(-1)


@model("graph_attention", FLOAT32, "further")
def graph_attention(dtype):
    return GraphAttention(), (torch.randn(4000, 128), torch.randint(0, 4000, (2, 24000)))


class LocalAttention(nn.Module):
    """Attention of each word to the 64 words around it, by overlapping blocks: [batch, 1024, 256]."""

    def __init__(self, width=256, heads=4, block=64):
        super().__init__()
        self.heads, self.block = heads, block
        self.norm, self.given, self.last = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.given(self.norm(x)).chunk(3, -1))
        block, count = self.block, length // self.block
        q = q.reshape(batch, self.heads, count, block, -1)
        k, v = (F.pad(t, (0, 0, block, block)).unfold(2, 3 * block, block).transpose(-1, -2) for t in (k, v))
        at = torch.arange(length).view(count, block, 1)
        to = (torch.arange(count) * block - block)[:, None, None] + torch.arange(3 * block)
        allowed = ((at - to).abs() <= block // 2) & (to >= 0) & (to < length)
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        out = scores.masked_fill(~allowed, -1e9).softmax(-1) @ v
        return x + self.last(out.reshape(batch, self.heads, length, -1).transpose(1, 2).flatten(2))


@model("local_attention_b2", FLOAT32, "further")
def local_attention_b2(dtype):
    return LocalAttention(), (torch.randn(2, 1024, 256),)


class Denoiser(nn.Module):
    """Sound [batch, 16000] -> sound, by a mask over its spectrogram that a GRU of 126 steps predicts."""

    def __init__(self, size=256):
        super().__init__()
        self.size = size
        self.register_buffer("window", torch.hann_window(size))
        self.given, self.gru, self.last = nn.Linear(129, 192), nn.GRU(192, 192, batch_first=True), nn.Linear(192, 129)

    def forward(self, x):
        spectrum = torch.stft(x, self.size, 128, window=self.window, return_complex=True)
        level = (spectrum.abs() + 1e-6).log().transpose(1, 2)
        mask = self.last(self.gru(self.given(level).relu())[0]).sigmoid().transpose(1, 2)
        return torch.istft(spectrum * mask, self.size, 128, window=self.window, length=x.shape[1])


@model("denoiser", FLOAT32, "further")
def denoiser(dtype):
    return Denoiser(), (torch.randn(1, 16000),)


class Bodies(nn.Module):
    """Two leapfrog steps of 2,048 bodies that attract one another: places, speeds [n, 3], masses [n]."""

    def forward(self, place, speed, mass):
        for _ in range(2):
            apart = place[None] - place[:, None]
            near = (apart.square().sum(-1) + 1e-2).rsqrt()
            force = (apart * (mass[None] * near * near * near)[..., None]).sum(1)
            speed = speed + 0.01 * force
            place = place + 0.01 * speed
        return place, speed


@model("bodies", FLOAT32, "further")
def bodies(dtype):
    return Bodies(), (torch.randn(2048, 3), torch.randn(2048, 3), torch.rand(2048))


class Photos(nn.Module):
    """Bytes of photographs [batch, 480, 640, 3] -> [batch, 3, 224, 224]: resized, blurred, of other colours, normalised."""

    def __init__(self):
        super().__init__()
        at = torch.arange(-2, 3, dtype=torch.float32)
        line = torch.exp(-at ** 2 / 2)
        line = line / line.sum()
        self.register_buffer("blur", (line[:, None] * line)[None, None].repeat(3, 1, 1, 1))
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1))
        self.register_buffer("deviation", torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1))

    def forward(self, x):
        x = x.permute(0, 3, 1, 2).float() / 255
        x = F.interpolate(x, (256, 256), mode="bilinear", align_corners=False)[..., 16:240, 16:240]
        x = F.conv2d(F.pad(x, (2, 2, 2, 2), mode="reflect"), self.blur, groups=3)
        grey = (x * torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(1, keepdim=True)
        x = (grey + 1.2 * (x - grey)).clamp(0, 1)
        level = grey.mean((1, 2, 3), keepdim=True)
        x = (level + 0.9 * (x - level)).clamp(0, 1)
        return (x - self.mean) / self.deviation


@model("photos_b4", FLOAT32, "further")
def photos_b4(dtype):
    return Photos(), (torch.randint(0, 256, (4, 480, 640, 3), dtype=torch.uint8),)


class Waves(nn.Module):
    """Sixteen steps of the wave equation on a grid [512, 512] that closes upon itself."""

    def forward(self, now, before, speed):
        for _ in range(16):
            around = now.roll(1, 0) + now.roll(-1, 0) + now.roll(1, 1) + now.roll(-1, 1) - 4 * now
            now, before = 2 * now - before + speed * around, now
        return now, before


@model("waves", FLOAT32, "further")
def waves(dtype):
    return Waves(), (torch.randn(512, 512), torch.randn(512, 512), torch.rand(512, 512) * 0.2)


class Capsules(nn.Module):
    """Capsules with three turns of routing by agreement: digits [batch, 1, 28, 28] -> lengths [batch, 10]."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 128, 9), nn.Conv2d(128, 128, 9, 2)
        self.weight = nn.Parameter(torch.randn(576, 10, 8, 16) / 10)

    @staticmethod
    def squash(x):
        square = x.square().sum(-1, keepdim=True)
        return square / (1 + square) * x * torch.rsqrt(square + 1e-8)

    def forward(self, x):
        x = self.second(self.first(x).relu())
        x = self.squash(x.view(len(x), 16, 8, 36).permute(0, 1, 3, 2).reshape(len(x), 576, 8))
        votes = torch.einsum("bni,ndio->bndo", x, self.weight)
        logits = votes.new_zeros(votes.shape[:3])
        for turn in range(3):
            out = self.squash((logits.softmax(2)[..., None] * votes).sum(1))
            if turn < 2:
                logits = logits + (votes * out[:, None]).sum(-1)
        return out.norm(dim=-1)


@model("capsules_b8", FLOAT32, "further")
def capsules_b8(dtype):
    return Capsules(), (torch.randn(8, 1, 28, 28),)
