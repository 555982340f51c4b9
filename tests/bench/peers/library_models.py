"""Models of torchvision and transformers at their usual sizes, and three kinds that those lack.

A second set beside untuned_models.py, chosen after the compiler was tuned with that one. Weights are random.
"""
import torch
from torch import nn

from registry import model

FLOAT32 = ("f32",)


class Answer(nn.Module):
    """One field of a Hugging Face model's answer, of a model that is called with named arguments."""

    def __init__(self, inner, field, names):
        super().__init__()
        self.inner, self.field, self.names = inner, field, names

    def forward(self, *values):
        return getattr(self.inner(**dict(zip(self.names, values))), self.field)


def images(batch, size=224):
    return (torch.randn(batch, 3, size, size),)


def vision(name, arguments):
    import torchvision
    return getattr(torchvision.models, name)(weights=None), arguments


@model("efficientnet_b0", FLOAT32, "library")
def efficientnet_b0(dtype):
    return vision("efficientnet_b0", images(1))


@model("densenet121", FLOAT32, "library")
def densenet121(dtype):
    return vision("densenet121", images(1))


@model("convnext_tiny", FLOAT32, "library")
def convnext_tiny(dtype):
    return vision("convnext_tiny", images(1))


@model("shufflenet_v2_b8", FLOAT32, "library")
def shufflenet_v2_b8(dtype):
    return vision("shufflenet_v2_x1_0", images(8))


@model("swin_t", FLOAT32, "library")
def swin_t(dtype):
    return vision("swin_t", images(1))


@model("r3d_18", FLOAT32, "library")
def r3d_18(dtype):
    """Eight frames of 112 x 112."""
    import torchvision
    return torchvision.models.video.r3d_18(weights=None), (torch.randn(1, 3, 8, 112, 112),)


@model("distilbert_b8", FLOAT32, "library")
def distilbert_b8(dtype):
    from transformers import DistilBertConfig, DistilBertModel
    net = DistilBertModel(DistilBertConfig())
    return Answer(net, "last_hidden_state", ("input_ids",)), (torch.randint(0, 30522, (8, 64)),)


@model("t5_small", FLOAT32, "library")
def t5_small(dtype):
    from transformers import T5Config, T5Model
    net = T5Model(T5Config(use_cache=False, num_layers=6, num_heads=8, d_model=512, d_ff=2048))
    names = ("input_ids", "decoder_input_ids")
    return Answer(net, "last_hidden_state", names), (torch.randint(0, 32128, (1, 128)), torch.randint(0, 32128, (1, 32)))


@model("wav2vec2", FLOAT32, "library")
def wav2vec2(dtype):
    """Two seconds at 16 kHz, four layers."""
    from transformers import Wav2Vec2Config, Wav2Vec2Model
    net = Wav2Vec2Model(Wav2Vec2Config(num_hidden_layers=4))
    return Answer(net, "last_hidden_state", ("input_values",)), (torch.randn(1, 32000),)


class Tagger(nn.Module):
    """Words to tags by a GRU in both directions: [batch, words] -> [batch, words, tags]."""

    def __init__(self, words=20000, width=256, units=256, tags=32):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.recurrent = nn.GRU(width, units, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * units, tags)

    def forward(self, words):
        return self.head(self.recurrent(self.embedding(words))[0]).log_softmax(-1)


@model("tagger_b8", FLOAT32, "library")
def tagger_b8(dtype):
    return Tagger(), (torch.randint(0, 20000, (8, 40)),)


class Recommender(nn.Module):
    """Dense features and bags of sparse ones, their products with each other, and a score, after DLRM."""

    def __init__(self, tables=16, rows=20000, width=64):
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables)])
        self.dense = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.score = nn.Sequential(nn.Linear(width + pairs, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense, sparse):
        x = self.dense(dense)
        all_features = torch.stack([x] + [table(sparse[:, i]) for i, table in enumerate(self.tables)], 1)
        products = all_features @ all_features.transpose(1, 2)
        return self.score(torch.cat([x, products[:, self.pairs[0], self.pairs[1]]], 1)).sigmoid()


@model("recommender_b128", FLOAT32, "library")
def recommender_b128(dtype):
    return Recommender(), (torch.randn(128, 13), torch.randint(0, 20000, (128, 16, 4)))


class Autoencoder(nn.Module):
    """Strided convolutions down, transposed ones up, batch norms and leaky ReLU: images of 64 x 64."""

    def __init__(self, width=64):
        super().__init__()
        down, up, before = [], [], 3
        for after in (width, 2 * width, 4 * width):
            down += [nn.Conv2d(before, after, 4, 2, 1), nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
            before = after
        for after in (2 * width, width, 3):
            up += [nn.ConvTranspose2d(before, after, 4, 2, 1), nn.BatchNorm2d(after), nn.LeakyReLU(0.2)]
            before = after
        self.net = nn.Sequential(*down, *up[:-2], nn.Tanh())

    def forward(self, x):
        return self.net(x)


@model("autoencoder_b8", FLOAT32, "library")
def autoencoder_b8(dtype):
    return Autoencoder(), images(8, 64)
