"""The models that tests and benchmarks train, in the sizes that they ask for. Each has batch(), which
gives inputs and the right answers for cross entropy."""

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """A layer of a transformer, its norms before what they feed."""

    def __init__(self, width, heads, dropout=0.0, is_causal=True):
        super().__init__()
        self.heads, self.dropout, self.is_causal = heads, dropout, is_causal
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training)

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.norms[0](x)).chunk(3, -1)
        )
        dropped = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=dropped, is_causal=self.is_causal)
        x = x + self.drop(self.out(mixed.transpose(1, 2).flatten(2)))
        return x + self.drop(self.narrow(F.gelu(self.wide(self.norms[1](x)), approximate="tanh")))


class Gpt2(nn.Module):
    """GPT-2 with its head tied to the table of words."""

    def __init__(self, words, width, heads, layers, length, batch, dropout=0.1):
        super().__init__()
        self.sizes = words, length, batch
        self.embed, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.dropout, self.norm = nn.Dropout(dropout), nn.LayerNorm(width)
        for table in (self.embed, self.place):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.embed(tokens) + self.place(positions))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.embed.weight).flatten(0, 1)

    def batch(self):
        words, length, batch = self.sizes
        tokens = torch.randint(words, (batch, length + 1))
        return tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()


class Vit(nn.Module):
    """A vision transformer: patches, a class token, learned places."""

    def __init__(self, image, patch, width, heads, layers, classes, batch):
        super().__init__()
        self.sizes = image, classes, batch
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.place = nn.Parameter(0.02 * torch.randn(1, (image // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(Block(width, heads, 0.0, False) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        return self.head(self.norm(self.blocks(x))[:, 0])

    def batch(self):
        image, classes, batch = self.sizes
        return torch.randn(batch, 3, image, image), torch.randint(classes, (batch,))


class Residual(nn.Module):
    """ResNet's basic block."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(2))
        self.short = nn.Identity()
        if stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.short = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.norms[1](self.second(F.relu(self.norms[0](self.first(x)))))
        return F.relu(y + self.short(x))


class ResNet18(nn.Module):
    """ResNet-18; `width` is 64 in the published one."""

    def __init__(self, image, classes, batch, width=64):
        super().__init__()
        self.sizes = image, classes, batch
        stem = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.stem = nn.Sequential(stem, nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        layers, inputs = [], width
        for level in range(4):
            outputs = width << level
            layers += [Residual(inputs, outputs, 1 if level == 0 else 2)]
            layers += [Residual(outputs, outputs, 1)]
            inputs = outputs
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(inputs, classes)

    def forward(self, x):
        x = self.layers(self.stem(x))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))

    batch = Vit.batch


class DoubleConv(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(
            *(nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU()),
            *(nn.Conv2d(outputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU()),
        )


class UNet(nn.Module):
    """A U-Net of two levels that classifies pixels."""

    def __init__(self, image, classes, batch, width):
        super().__init__()
        self.sizes = image, classes, batch
        self.down = nn.ModuleList([DoubleConv(3, width), DoubleConv(width, 2 * width)])
        self.middle = DoubleConv(2 * width, 4 * width)
        self.grow = nn.ModuleList(
            [nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)]
        )
        self.up = nn.ModuleList([DoubleConv(4 * width, 2 * width), DoubleConv(2 * width, width)])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        kept = []
        for level in self.down:
            x = level(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for grow, level in zip(self.grow, self.up):
            x = level(torch.cat([kept.pop(), grow(x)], 1))
        return self.head(x)

    def batch(self):
        image, classes, batch = self.sizes
        labels = torch.randint(classes, (batch, image, image))
        return torch.randn(batch, 3, image, image), labels
