"""A Fourier transform whose butterflies are trained: radix-2, decimation in time.

The signal is put into bit-reversed order. Stage s then combines positions that lie 2^s apart: butterfly b
takes `top` and `bottom`, turns `bottom` by an angle, and gives their sum and difference. With the angles
-2 pi (b mod 2^s) / 2^(s+1) the stages compute the discrete Fourier transform. A gate for each butterfly
blends its result with its input, g * butterfly + (1 - g) * identity, and a mask weighs the frequencies.

Signals are (batch, 2, n): real and imaginary parts.
"""

import math

import torch
from torch import nn


def bit_reversed(x):
    """The order in which decimation in time reads its input: the bits of each position from behind."""
    bits = x.shape[-1].bit_length() - 1
    behind = range(bits + 1, 1, -1)
    return x.reshape(*x.shape[:2], *[2] * bits).permute(0, 1, *behind).reshape(x.shape)


def exact_angles(n):
    """The angles of the Fourier transform: (stages, n / 2)."""
    rows = []
    for stage in range(n.bit_length() - 1):
        b = torch.arange(n // 2, dtype=torch.float64) % 2**stage
        rows.append(-2 * math.pi * b / 2 ** (stage + 1))
    return torch.stack(rows).float()


def as_butterflies(x, stage):
    """(batch, 2, n) as (batch, 4, n / 2): top's and bottom's real and imaginary parts."""
    batch, _, n = x.shape
    parts = x.reshape(batch, 2, n >> (stage + 1), 2, 1 << stage)
    return parts.permute(0, 3, 1, 2, 4).reshape(batch, 4, n // 2)


def as_signal(y, stage):
    """The inverse of as_butterflies."""
    batch, _, half = y.shape
    parts = y.reshape(batch, 2, 2, half >> stage, 1 << stage)
    return parts.permute(0, 2, 3, 1, 4).reshape(batch, 2, 2 * half)


def in_stages(x, matrices):
    """The signal after all stages. `matrices`: (stages, 4, 4, n / 2), what each butterfly multiplies its
    four numbers by. A stage is one product, so that its result is all that a derivative needs of it."""
    x = bit_reversed(x)
    for stage, matrix in enumerate(matrices.unbind()):
        x = as_signal((matrix * as_butterflies(x, stage)[:, None]).sum(2), stage)
    return x


def rows(*entries):
    """Four rows of four entries of one shape (stages, n / 2) as (stages, 4, 4, n / 2)."""
    return torch.stack(entries, 1).unflatten(1, (4, 4))


class LearnedTransform(nn.Module):
    """`angles` and `gates` of each butterfly, and a `mask` of the frequencies."""

    def __init__(self, n):
        super().__init__()
        self.n, self.stages = n, n.bit_length() - 1
        self.angles = nn.Parameter(exact_angles(n))
        self.gates = nn.Parameter(torch.ones(self.stages, n // 2))
        self.mask = nn.Parameter(torch.ones(n))

    def matrices(self):
        """Top plus the turned bottom, and top minus it, blended with the input by the gate."""
        gate = self.gates
        cos, sin = gate * self.angles.cos(), gate * self.angles.sin()
        zero, one, rest = torch.zeros_like(gate), torch.ones_like(gate), 1 - gate - cos
        top = (one, zero, cos, -sin), (zero, one, sin, cos)
        bottom = (gate, zero, rest, sin), (zero, gate, -sin, rest)
        return rows(*top[0], *top[1], *bottom[0], *bottom[1])

    def forward(self, x):
        return in_stages(x, self.matrices()) * self.mask


class FreeTransform(nn.Module):
    """The same with a free complex 2x2 matrix for each butterfly: `blocks` (stages, n / 2, 2, 2)."""

    def __init__(self, blocks, mask):
        super().__init__()
        self.blocks, self.mask = nn.Parameter(torch.view_as_real(blocks)), nn.Parameter(mask)

    def forward(self, x):
        real, imaginary = self.blocks.permute(4, 2, 3, 0, 1)  # (2, 2, stages, n / 2) each
        entries = []
        for row in range(2):
            of_row = [(real[row, column], imaginary[row, column]) for column in range(2)]
            entries += [part for re, im in of_row for part in (re, -im)]
            entries += [part for re, im in of_row for part in (im, re)]
        return in_stages(x, rows(*entries)) * self.mask
