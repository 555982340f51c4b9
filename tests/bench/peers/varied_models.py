"""Kinds that the other sets lack: sound and volumes from convolutions, points, graphs, fields, segmentation, dense search.

A third set, chosen after the compiler was tuned with the other two. Weights are random.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

from library_models import Answer, vision
from registry import model

FLOAT32 = ("f32",)


class Vocoder(nn.Module):
    """HiFi-GAN's generator: mel frames [batch, 80, frames] -> samples [batch, 1, 256 frames]."""

    def __init__(self, width=256):
        super().__init__()
        self.first = nn.Conv1d(80, width, 7, padding=3)
        self.ups, self.blocks = nn.ModuleList(), nn.ModuleList()
        for rate in (8, 8, 4):
            self.ups.append(nn.ConvTranspose1d(width, width // 2, 2 * rate, rate, padding=rate // 2))
            width //= 2
            self.blocks.append(nn.ModuleList([nn.ModuleList([
                nn.Conv1d(width, width, taps, dilation=apart, padding=apart * (taps - 1) // 2) for apart in (1, 3, 5)])
                for taps in (3, 7)]))
        self.last = nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, x):
        x = self.first(x)
        for up, blocks in zip(self.ups, self.blocks):
            x = up(F.leaky_relu(x, 0.1))
            total = 0
            for block in blocks:
                y = x
                for convolution in block:
                    y = y + convolution(F.leaky_relu(y, 0.1))
                total = total + y
            x = total / len(blocks)
        return torch.tanh(self.last(F.leaky_relu(x)))


@model("vocoder", FLOAT32, "varied")
def vocoder(dtype):
    return Vocoder(), (torch.randn(1, 80, 100),)


class RadianceField(nn.Module):
    """NeRF's net: places [points, 3] -> colours [points, 3] and densities [points]."""

    def __init__(self, width=256, octaves=10):
        super().__init__()
        given = 3 + 6 * octaves
        self.register_buffer("octaves", 2.0 ** torch.arange(octaves))
        self.layers = nn.ModuleList([nn.Linear(given, width)] + [nn.Linear(width, width) for _ in range(3)])
        self.joined = nn.ModuleList([nn.Linear(width + given, width)] + [nn.Linear(width, width) for _ in range(3)])
        self.last = nn.Linear(width, 4)

    def forward(self, x):
        angles = (x[..., None] * self.octaves).flatten(1)
        given = torch.cat([x, angles.sin(), angles.cos()], -1)
        y = given
        for layer in self.layers:
            y = torch.relu(layer(y))
        y = torch.cat([y, given], -1)
        for layer in self.joined:
            y = torch.relu(layer(y))
        y = self.last(y)
        return torch.sigmoid(y[..., :3]), torch.relu(y[..., 3])


@model("radiance_field", FLOAT32, "varied")
def radiance_field(dtype):
    return RadianceField(), (torch.randn(4096, 3),)


def point_layers(*widths):
    """Each point by itself: convolutions of one tap with batch norms."""
    layers = []
    for given, width in zip(widths, widths[1:]):
        layers += [nn.Conv1d(given, width, 1), nn.BatchNorm1d(width), nn.ReLU()]
    return nn.Sequential(*layers)


class PointNet(nn.Module):
    """Parts of shapes: points [batch, 3, points] -> log probabilities [batch, 50, points]."""

    def __init__(self):
        super().__init__()
        self.local, self.whole = point_layers(3, 64, 64), point_layers(64, 64, 128, 1024)
        self.parts, self.last = point_layers(1088, 512, 256, 128), nn.Conv1d(128, 50, 1)

    def forward(self, x):
        local = self.local(x)
        whole = self.whole(local).max(-1, keepdim=True)[0].expand(-1, -1, x.shape[-1])
        return self.last(self.parts(torch.cat([local, whole], 1))).log_softmax(1)


@model("pointnet_b4", FLOAT32, "varied")
def pointnet_b4(dtype):
    return PointNet(), (torch.randn(4, 3, 1024),)


class GraphNet(nn.Module):
    """Means over neighbours: features [nodes, 128], edges from [edges] to [edges] -> scores [nodes, 40]."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(128, 256), nn.Linear(256, 256), nn.Linear(256, 40)])

    def forward(self, x, source, target):
        neighbours = torch.zeros(x.shape[0]).index_add(0, target, torch.ones(target.shape[0])).clamp(min=1)
        for layer in self.layers:
            y = layer(x)
            x = torch.zeros_like(y).index_add(0, target, y[source]) / neighbours[:, None] + y
            if layer is not self.layers[-1]:
                x = torch.relu(x)
        return x


@model("graph_net", FLOAT32, "varied")
def graph_net(dtype):
    edges = [torch.randint(0, 4000, (32000,)) for _ in range(2)]
    return GraphNet(), (torch.randn(4000, 128), *edges)


class Conformer(nn.Module):
    """A layer of a Conformer with learned biases by distance: [batch, steps, width] -> the same."""

    def __init__(self, width=256, heads=4, steps_max=512, taps=31):
        super().__init__()
        def narrow_wide_narrow():
            return nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
        self.before, self.after = narrow_wide_narrow(), narrow_wide_narrow()
        self.heads, self.steps_max = heads, steps_max
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.randn(heads, 2 * steps_max - 1) * 0.02)
        self.norm2, self.gated = nn.LayerNorm(width), nn.Conv1d(width, 2 * width, 1)
        self.depthwise = nn.Conv1d(width, width, taps, padding=taps // 2, groups=width)
        self.batch_norm, self.mixed, self.last = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1), nn.LayerNorm(width)

    def forward(self, x):
        batch, steps, width = x.shape
        x = x + 0.5 * self.before(x)
        q, k, v = self.qkv(self.norm(x)).view(batch, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        position = torch.arange(steps)
        bias = self.bias[:, position[:, None] - position + self.steps_max - 1]
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None])
        x = x + self.out(attended.transpose(1, 2).reshape(batch, steps, width))
        y = F.glu(self.gated(self.norm2(x).transpose(1, 2)), 1)
        x = x + self.mixed(F.silu(self.batch_norm(self.depthwise(y)))).transpose(1, 2)
        return self.last(x + 0.5 * self.after(x))


@model("conformer_b2", FLOAT32, "varied")
def conformer_b2(dtype):
    return nn.Sequential(*[Conformer() for _ in range(4)]), (torch.randn(2, 400, 256),)


class DiffusionLayer(nn.Module):
    """A layer of a diffusion transformer, modulated by the time's embedding [batch, width]."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulation, self.qkv, self.out = nn.Linear(width, 6 * width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, time):
        batch, tokens, width = x.shape
        shift, scale, gate, shift2, scale2, gate2 = self.modulation(F.silu(time))[:, None].chunk(6, -1)
        q, k, v = self.qkv(self.norm(x) * (1 + scale) + shift).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width)
        x = x + gate * self.out(attended)
        y = self.wide(self.norm(x) * (1 + scale2) + shift2)
        return x + gate2 * self.narrow(F.gelu(y, approximate="tanh"))


class DiffusionTransformer(nn.Module):
    """Latent images [batch, 4, 32, 32] at times [batch] -> noise like the images."""

    def __init__(self, width=384, layers=6):
        super().__init__()
        self.patches = nn.Conv2d(4, width, 2, 2)
        self.position = nn.Parameter(torch.randn(1, 256, width) * 0.02)
        self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList([DiffusionLayer(width, 6) for _ in range(layers)])
        self.last = nn.Linear(width, 16)

    def forward(self, x, time):
        angles = time[:, None] * torch.exp(torch.arange(128) * (-math.log(10000) / 128))
        embedded = self.time(torch.cat([angles.cos(), angles.sin()], -1))
        y = self.patches(x).flatten(2).transpose(1, 2) + self.position
        for layer in self.layers:
            y = layer(y, embedded)
        return self.last(y).view(-1, 16, 16, 2, 2, 4).permute(0, 5, 1, 3, 2, 4).reshape(-1, 4, 32, 32)


@model("diffusion_b2", FLOAT32, "varied")
def diffusion_b2(dtype):
    return DiffusionTransformer(), (torch.randn(2, 4, 32, 32), torch.tensor([10.0, 500.0]))


class StateSpace(nn.Module):
    """A layer of S4D, whose long convolution is a product of spectra: [batch, 1024, width] -> the same."""

    def __init__(self, width=256, states=32, steps=1024):
        super().__init__()
        self.steps = steps
        self.decay, self.read = nn.Parameter(torch.rand(width, states)), nn.Parameter(torch.randn(width, states))
        self.step = nn.Parameter(torch.rand(width, 1) * 0.1)
        self.norm, self.given, self.out = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(width, width)

    def forward(self, x):
        value, gate = self.given(self.norm(x)).chunk(2, -1)
        powers = torch.exp(-(self.decay * self.step)[..., None] * torch.arange(self.steps))
        kernel = torch.fft.rfft(torch.einsum("ws,wst->wt", self.read, powers), n=2 * self.steps)
        spectrum = torch.fft.rfft(value.transpose(1, 2), n=2 * self.steps) * kernel
        y = torch.fft.irfft(spectrum, n=2 * self.steps)[..., : self.steps]
        return x + self.out(y.transpose(1, 2) * F.silu(gate))


@model("state_space_b2", FLOAT32, "varied")
def state_space_b2(dtype):
    return nn.Sequential(*[StateSpace() for _ in range(3)]), (torch.randn(2, 1024, 256),)


class SuperResolution(nn.Module):
    """ESPCN beside bicubic interpolation: images [batch, 3, h, w] -> [batch, 3, 3 h, 3 w]."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 64, 5, padding=2), nn.Conv2d(64, 32, 3, padding=1)
        self.last = nn.Conv2d(32, 27, 3, padding=1)

    def forward(self, x):
        y = self.last(torch.tanh(self.second(torch.tanh(self.first(x)))))
        return (F.pixel_shuffle(y, 3) + F.interpolate(x, scale_factor=3, mode="bicubic")).clamp(0, 1)


@model("super_resolution", FLOAT32, "varied")
def super_resolution(dtype):
    return SuperResolution(), (torch.rand(1, 3, 180, 240),)


@model("dcgan_b8", FLOAT32, "varied")
def dcgan_b8(dtype):
    """DCGAN's generator of 64 x 64 images."""
    widths = (100, 512, 256, 128, 64, 3)
    layers = []
    for k, (given, width) in enumerate(zip(widths, widths[1:])):
        stride, padding = (1, 0) if k == 0 else (2, 1)
        layers.append(nn.ConvTranspose2d(given, width, 4, stride, padding, bias=False))
        layers += [nn.Tanh()] if width == 3 else [nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers), (torch.randn(8, 100, 1, 1),)


class Clusters(nn.Module):
    """A step of k-means: points [n, features], centres [k, features] -> centres, the nearest of each point [n]."""

    def forward(self, x, centres):
        nearest = torch.cdist(x, centres).argmin(1)
        counts = torch.zeros(centres.shape[0]).index_add(0, nearest, torch.ones(x.shape[0])).clamp(min=1)
        return torch.zeros_like(centres).index_add(0, nearest, x) / counts[:, None], nearest


@model("clusters", FLOAT32, "varied")
def clusters(dtype):
    return Clusters(), (torch.randn(20000, 64), torch.randn(256, 64))


class Separable(nn.Module):
    """A convolution over time within channels, one across them, and a batch norm."""

    def __init__(self, given, width, taps, apart=1, stride=1):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(given, given, taps, stride, apart * (taps - 1) // 2, apart, given, bias=False),
            nn.Conv1d(given, width, 1, bias=False), nn.BatchNorm1d(width))

    def forward(self, x):
        return self.layers(x)


class QuartzNet(nn.Module):
    """Speech to letters: mel frames [batch, 64, frames] -> log probabilities [batch, 29, frames / 2]."""

    def __init__(self):
        super().__init__()
        self.first, self.last = Separable(64, 256, 33, stride=2), Separable(256, 512, 87, 2)
        self.blocks = nn.ModuleList([nn.ModuleList([Separable(256, 256, taps) for _ in range(3)]) for taps in (33, 39, 51)])
        self.letters = nn.Conv1d(512, 29, 1)

    def forward(self, x):
        x = torch.relu(self.first(x))
        for first, second, third in self.blocks:
            x = torch.relu(x + third(torch.relu(second(torch.relu(first(x))))))
        return self.letters(torch.relu(self.last(x))).log_softmax(1)


@model("quartznet_b2", FLOAT32, "varied")
def quartznet_b2(dtype):
    return QuartzNet(), (torch.randn(2, 64, 800),)


class VolumeNet(nn.Module):
    """A U-net of volumes: [batch, 1, depth, height, width] -> probabilities of three classes."""

    def __init__(self, width=16):
        super().__init__()
        def block(given, width):
            layers = []
            for channels in (given, width):
                layers += [nn.Conv3d(channels, width, 3, padding=1), nn.InstanceNorm3d(width, affine=True), nn.LeakyReLU()]
            return nn.Sequential(*layers)
        self.down, self.down2, self.deep = block(1, width), block(width, 2 * width), block(2 * width, 4 * width)
        self.up2, self.block2 = nn.ConvTranspose3d(4 * width, 2 * width, 2, 2), block(4 * width, 2 * width)
        self.up, self.block, self.last = nn.ConvTranspose3d(2 * width, width, 2, 2), block(2 * width, width), nn.Conv3d(width, 3, 1)

    def forward(self, x):
        fine = self.down(x)
        coarse = self.down2(F.max_pool3d(fine, 2))
        deep = self.deep(F.max_pool3d(coarse, 2))
        coarse = self.block2(torch.cat([self.up2(deep), coarse], 1))
        return self.last(self.block(torch.cat([self.up(coarse), fine], 1))).softmax(1)


@model("volume_net", FLOAT32, "varied")
def volume_net(dtype):
    return VolumeNet(), (torch.randn(1, 1, 32, 48, 48),)


class Segmentation(nn.Module):
    """The classes of torchvision's answer: images [batch, 3, h, w] -> scores [batch, 21, h, w]."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)["out"]


@model("deeplab_v3", FLOAT32, "varied")
def deeplab_v3(dtype):
    import torchvision
    net = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None)
    return Segmentation(net), (torch.randn(1, 3, 224, 224),)


@model("maxvit_t", FLOAT32, "varied")
def maxvit_t(dtype):
    return vision("maxvit_t", (torch.randn(1, 3, 224, 224),))


@model("segformer", FLOAT32, "varied")
def segformer(dtype):
    from transformers import SegformerConfig, SegformerForSemanticSegmentation
    net = SegformerForSemanticSegmentation(SegformerConfig(num_labels=19))
    return Answer(net, "logits", ("pixel_values",)), (torch.randn(1, 3, 256, 256),)


@model("deberta_b4", FLOAT32, "varied")
def deberta_b4(dtype):
    """Attention by content and by distance."""
    from transformers import DebertaV2Config, DebertaV2Model
    config = DebertaV2Config(
        vocab_size=30000, hidden_size=384, num_attention_heads=6, num_hidden_layers=6, intermediate_size=1536,
        relative_attention=True, position_buckets=256, pos_att_type=["p2c", "c2p"], norm_rel_ebd="layer_norm",
        share_att_key=True)
    return Answer(DebertaV2Model(config), "last_hidden_state", ("input_ids",)), (torch.randint(0, 30000, (4, 64)),)


@model("mamba", FLOAT32, "varied")
def mamba(dtype):
    """Two layers of a selective state space over 64 words, step by step."""
    from transformers import MambaConfig, MambaModel
    config = MambaConfig(vocab_size=2000, hidden_size=256, num_hidden_layers=2, use_cache=False)
    return Answer(MambaModel(config), "last_hidden_state", ("input_ids",)), (torch.randint(0, 2000, (1, 64)),)


@model("vit_tiny_b8", FLOAT32, "varied")
def vit_tiny_b8(dtype):
    from transformers import ViTConfig, ViTModel
    config = ViTConfig(hidden_size=192, num_attention_heads=3, num_hidden_layers=12, intermediate_size=768)
    return Answer(ViTModel(config), "pooler_output", ("pixel_values",)), (torch.randn(8, 3, 224, 224),)


@model("whisper_tiny", FLOAT32, "varied")
def whisper_tiny(dtype):
    """Encoder and decoder of 30 s of speech and 32 words, three layers each."""
    from transformers import WhisperConfig, WhisperModel
    config = WhisperConfig(
        d_model=256, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=1024, decoder_ffn_dim=1024, use_cache=False)
    names = ("input_features", "decoder_input_ids")
    return (Answer(WhisperModel(config), "last_hidden_state", names),
            (torch.randn(1, 80, 3000), torch.randint(0, 50000, (1, 32))))


class Labels(nn.Module):
    """A label for each word: words [batch, words] -> log probabilities [batch, words, 20]."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20000, 128)
        self.recurrent = nn.LSTM(128, 128, 2, batch_first=True, bidirectional=True)
        self.last = nn.Linear(256, 20)

    def forward(self, x):
        return self.last(self.recurrent(self.words(x))[0]).log_softmax(-1)


@model("labels_b16", FLOAT32, "varied")
def labels_b16(dtype):
    return Labels(), (torch.randint(0, 20000, (16, 48)),)


class OptionPrices(nn.Module):
    """Black-Scholes prices of calls and puts, of five vectors."""

    def forward(self, spot, strike, time, rate, volatility):
        spread = volatility * time.sqrt()
        first = (torch.log(spot / strike) + (rate + volatility * volatility / 2) * time) / spread
        discounted = strike * torch.exp(-rate * time)
        def normal(x):
            return 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        call = spot * normal(first) - discounted * normal(first - spread)
        return call, call - spot + discounted


@model("option_prices", FLOAT32, "varied")
def option_prices(dtype):
    return OptionPrices(), tuple(torch.rand(1000000) + 0.5 for _ in range(5))


class TwoTowers(nn.Module):
    """The ten best of many items for each user: users [n], items [m] -> scores [n, 10] and places [n, 10]."""

    def __init__(self, width=64):
        super().__init__()
        self.users, self.items = nn.Embedding(50000, width), nn.Embedding(100000, width)
        def tower():
            return nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        self.of_user, self.of_item = tower(), tower()

    def forward(self, users, items):
        user = F.normalize(self.of_user(self.users(users)), dim=-1)
        item = F.normalize(self.of_item(self.items(items)), dim=-1)
        scores, places = (user @ item.T / 0.05).topk(10, -1)
        return scores, places


@model("two_towers", FLOAT32, "varied")
def two_towers(dtype):
    """Each item once: among equal scores any place is right."""
    return TwoTowers(), (torch.randint(0, 50000, (64,)), torch.randperm(100000)[:20000])
