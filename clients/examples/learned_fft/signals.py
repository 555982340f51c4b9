"""Signals to train and test on: some tones and noise."""

import math

import torch

from pipelines import SEGMENTS, segments_of

NOISE = 0.1


def tones(count, n):
    """(count, 4.5 n): as long as Welch's eight segments, without noise."""
    length = n + (SEGMENTS - 1) * n // 2
    time = torch.arange(length) / n
    frequency = 1 + (n / 2 - 2) * torch.rand(count, 3, 1)
    strength = torch.tensor([1.0, 0.5, 0.25])[:, None] * (0.5 + torch.rand(count, 3, 1))
    phase = 2 * math.pi * torch.rand(count, 3, 1)
    return (strength * (2 * math.pi * frequency * time + phase).cos()).sum(1)


def batch(count, n):
    """Frames (count, n) and segments (count, 8, n) of the same signals."""
    clean = tones(count, n)
    signal = clean + NOISE * torch.randn_like(clean)
    return signal[:, :n].contiguous(), segments_of(signal, n).contiguous()
