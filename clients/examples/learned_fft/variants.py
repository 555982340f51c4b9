"""Other forms of a trained transform: without blends, in eight bits, of three kinds of butterflies, of
unitary matrices, and as the native transform between a mask and an affine map."""

import copy

import torch
from torch import nn

from pipelines import real_signal
from transform import FreeTransform, LearnedTransform, exact_angles


def changed(transform, **tensors):
    """A copy with other parameters."""
    made = copy.deepcopy(transform)
    with torch.no_grad():
        for name, tensor in tensors.items():
            getattr(made, name).copy_(tensor)
    return made


def hard(transform):
    """A butterfly or none: gates at 0.5."""
    return changed(transform, gates=(transform.gates >= 0.5).float())


def quantised(tensor):
    """To 8 bits and back, with the largest magnitude at 127."""
    scale = tensor.abs().max() / 127
    return (tensor / scale).round().clamp(-127, 127) * scale


def q8(transform):
    return changed(
        transform, **{name: quantised(tensor) for name, tensor in transform.named_parameters()}
    )


SKIP, FORWARD, REVERSE = 0, 1, -1


def directions(transform):
    """What each butterfly is nearest to: nothing, the exact angle, or its negative."""
    exact = exact_angles(transform.n)

    def distance(angle):
        return (1 - (transform.angles - angle).cos()).detach()

    nearest = torch.where(distance(exact) <= distance(-exact), FORWARD, REVERSE)
    return torch.where(transform.gates < 0.5, SKIP, nearest)


def ternary(transform, kinds=None):
    """Butterflies that skip, turn forward or turn in reverse, each by the exact angle."""
    kinds = directions(transform) if kinds is None else kinds
    return changed(transform, gates=kinds.abs().float(), angles=kinds * exact_angles(transform.n))


def blocks(transform):
    """Each butterfly, with its gate, as a complex 2x2 matrix: (stages, n / 2, 2, 2)."""
    turn, gate = torch.polar(torch.ones_like(transform.angles), transform.angles), transform.gates
    rows = [torch.ones_like(turn), gate * turn, gate + 0j, 1 - gate - gate * turn]
    return torch.stack(rows, -1).unflatten(-1, (2, 2)).detach()


def unitary(transform):
    """The nearest unitary matrices, by the factor that a singular value decomposition leaves, times the
    square root of two that a butterfly gains."""
    left, _, right = torch.linalg.svd(blocks(transform))
    return FreeTransform(2**0.5 * (left @ right), transform.mask.detach().clone())


class Distilled(nn.Module):
    """The native transform, a mask of the frequencies, and one affine map."""

    def __init__(self, n):
        super().__init__()
        self.mask = nn.Parameter(torch.ones(n))
        self.scale, self.shift = nn.Parameter(torch.ones(())), nn.Parameter(torch.zeros(2, 1))

    def forward(self, x):
        spectrum = torch.fft.fft(torch.complex(x[:, 0], x[:, 1]))
        parts = torch.stack([spectrum.real, spectrum.imag], 1)
        return self.scale * (parts * self.mask) + self.shift


def distilled(teacher: LearnedTransform, frames, rounds=4):
    """Fitted to what the teacher gives, by least squares in turns."""
    student = Distilled(teacher.n)
    with torch.no_grad():
        wanted, native = teacher(real_signal(frames)), student(real_signal(frames))
        for _ in range(rounds):
            left = wanted - student.shift
            moments = (native * left).sum((0, 1)), (student.scale * native.square()).sum((0, 1))
            student.mask.copy_(moments[0] / moments[1])
            masked = native * student.mask
            student.scale.copy_((masked * left).sum() / masked.square().sum())
            student.shift.copy_((wanted - student.scale * masked).mean((0, 2))[:, None])
    return student
