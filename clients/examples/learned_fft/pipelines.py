"""What the transform is used for: mel spectra, Welch's power spectra, peaks, and denoising."""

import math

import torch
from torch import nn

from transform import LearnedTransform

SEGMENTS = 8
FLOOR = 1e-3  # of powers, before their logarithm


def hann(n):
    """Symmetric: both ends are zero."""
    return torch.hann_window(n, periodic=False)


def segments_of(signal, n):
    """Welch's segments, half overlapping, without detrending: (batch, 8, n), not yet windowed."""
    return signal.unfold(-1, n, n // 2)


def mel_filters(n, bands, rate=16000):
    """Triangles between points that are equally far apart on the mel scale: (bands, n / 2 + 1)."""
    top = 2595 * math.log10(1 + rate / 2 / 700)
    points = 700 * (10 ** (torch.linspace(0, top, bands + 2, dtype=torch.float64) / 2595) - 1)
    bins = torch.linspace(0, rate / 2, n // 2 + 1, dtype=torch.float64)
    low, centre, high = points[:-2, None], points[1:-1, None], points[2:, None]
    rising, falling = (bins - low) / (centre - low), (high - bins) / (high - centre)
    return torch.minimum(rising, falling).clamp(min=0).float()


def real_signal(x):
    """A real signal as (batch, 2, n)."""
    return torch.stack([x, torch.zeros_like(x)], 1)


def power(spectrum):
    """Of the frequencies from zero to half the rate: (batch, n / 2 + 1)."""
    half = spectrum[..., : spectrum.shape[-1] // 2 + 1]
    return half.square().sum(-2) / spectrum.shape[-1]


def position_of_peak(powers):
    """Where the strongest frequency lies, as a mean over all of them that has a derivative."""
    weights = (4 * (powers + FLOOR).log()).softmax(-1)
    return (weights * torch.arange(powers.shape[-1], dtype=powers.dtype)).sum(-1)


def results(spectra, back, filters, frames):
    """All that the losses and gates compare, of the spectra of frames and their segments."""
    of_frames, of_segments = spectra[:frames], spectra[frames:]
    powers = power(of_frames)
    welch = power(of_segments).unflatten(0, (frames, SEGMENTS)).mean(1)
    return {
        "spectrum": of_frames,
        "back": back,
        "mel": (powers @ filters.relu().t() + FLOOR).log(),
        "welch": (welch + FLOOR).log(),
        "peak": position_of_peak(powers),
    }


class Pipelines(nn.Module):
    """An analysis and a synthesis transform, and mel filters that are trained as well."""

    def __init__(self, n, bands):
        super().__init__()
        self.analysis, self.synthesis = LearnedTransform(n), LearnedTransform(n)
        self.filters = nn.Parameter(mel_filters(n, bands))
        self.register_buffer("window", hann(n), persistent=False)

    def back(self, spectrum):
        """The signal of a spectrum: conjugate, transform, conjugate, divide by n."""
        sign = torch.tensor([1.0, -1.0])[:, None]
        return self.synthesis(spectrum * sign) * sign / spectrum.shape[-1]

    def forward(self, frames, segments):
        """frames: (batch, n); segments: (batch, 8, n)."""
        both = torch.cat([frames, (segments * self.window).flatten(0, 1)])
        spectra = self.analysis(real_signal(both))
        count = frames.shape[0]
        return results(spectra, self.back(spectra[:count]), self.filters, count)


def reference(frames, segments, bands):
    """The same by a float64 transform and exact filters."""
    n, count = frames.shape[-1], frames.shape[0]
    both = torch.cat([frames, (segments * hann(n)).flatten(0, 1)]).double()
    spectra = torch.view_as_real(torch.fft.fft(both)).transpose(1, 2)
    exact = results(spectra, real_signal(frames.double()), mel_filters(n, bands).double(), count)
    return {name: value.float() for name, value in exact.items()}


WEIGHTS = {"spectrum": 0.25, "mel": 2.0, "welch": 1.5, "peak": 2.0, "sparsity": 0.01}


class Objective(nn.Module):
    """The loss that is trained, of a batch and its reference; all but sparsity vanish where the
    transform is exact."""

    def __init__(self, pipelines):
        super().__init__()
        self.pipelines = pipelines

    def forward(self, frames, segments, wanted):
        return sum(self.losses(frames, segments, wanted).values())

    def losses(self, frames, segments, wanted):
        """What each part adds to the loss."""
        n = frames.shape[-1]
        found = self.pipelines(frames, segments)
        away = {name: (found[name] - wanted[name]).square() for name in found}
        gates = torch.cat([self.pipelines.analysis.gates, self.pipelines.synthesis.gates])
        losses = {
            # The energy of a frame's error, which is the same in both domains.
            "spectrum": (away["spectrum"] / n + away["back"]).sum((1, 2)).mean(),
            "mel": away["mel"].mean(),
            "welch": away["welch"].mean(),
            "peak": away["peak"].mean() / n,
            "sparsity": gates.abs().mean(),
        }
        return {name: WEIGHTS[name] * loss for name, loss in losses.items()}


def denoised(transform, back, noisy, threshold=3.0):
    """The signal without the frequencies that are no stronger than noise."""
    spectrum = transform(real_signal(noisy))
    strength = spectrum.square().sum(1, keepdim=True) / spectrum.shape[-1]
    return back(spectrum * (strength > threshold**2))[:, 0]
