"""What a trained transform and its variants have to hold, each printed as passed or failed."""

import time

import torch

import signals
import variants as forms
from pipelines import denoised, real_signal, reference, results
from transform import LearnedTransform


class Results:
    """Gates: a measured number and the largest that passes."""

    def __init__(self):
        self.failed = []

    def add(self, name, what, value, limit):
        verdict = "passed" if value <= limit else "failed"
        print(f"{verdict}: {name}: {what} {value:.2e}, at most {limit:.2e}", flush=True)
        if verdict == "failed":
            self.failed.append(name)

    def finish(self):
        """The exit status."""
        print(f"failed gates: {', '.join(self.failed) or 'none'}")
        return 1 if self.failed else 0


def native(x):
    """The float64 transform of (batch, 2, n)."""
    spectrum = torch.fft.fft(torch.complex(x[:, 0].double(), x[:, 1].double()))
    return torch.stack([spectrum.real, spectrum.imag], 1)


@torch.no_grad()
def exactness(gates, transform):
    """Of a transform that is not trained yet."""
    x = torch.randn(16, 2, transform.n)
    away = (transform(x) - native(x)).abs().max().item()
    gates.add("exact twiddles", "furthest from float64", away, 1e-4)
    kinds = torch.full_like(transform.angles, forms.FORWARD)
    forward = forms.ternary(transform, kinds)(x)
    away = (forward - LearnedTransform(transform.n)(x)).abs().max().item()
    gates.add("all-forward ternary", "furthest from the butterflies", away, 1e-4)


def ratio(found, wanted):
    """The relative error of a whole tensor."""
    return ((found - wanted).norm() / wanted.norm()).item()


def measured(transform, pipelines, frames, segments, bands):
    """The worst of each pipeline's numbers."""
    count, wanted = frames.shape[0], reference(frames, segments, bands)
    windowed = torch.cat([frames, (segments * pipelines.window).flatten(0, 1)])
    spectra = transform(real_signal(windowed))
    found = results(spectra, pipelines.back(spectra[:count]), pipelines.filters, count)
    clean = denoised(lambda x: native(x).float(), exact_back, frames)
    return {
        "spectrum": ratio(found["spectrum"], wanted["spectrum"]),
        "mel": (found["mel"] - wanted["mel"]).abs().mean().item(),
        "welch": (found["welch"] - wanted["welch"]).abs().mean().item(),
        "peaks": (found["peak"] - wanted["peak"]).abs().mean().item(),
        "denoise": ratio(denoised(transform, pipelines.back, frames), clean),
    }


def exact_back(spectrum):
    """The signal of a spectrum by the native transform."""
    signal = torch.fft.ifft(torch.complex(spectrum[:, 0], spectrum[:, 1]))
    return torch.stack([signal.real, signal.imag], 1)


# The largest numbers that pass: mean differences of logarithms for mel and welch, of bins for peaks,
# relative errors for the others.
LIMITS = {"spectrum": 0.02, "mel": 0.05, "welch": 0.05, "peaks": 0.25, "denoise": 0.05}
# Eight bits are steps of 1/127 of the largest angle.
WIDER = {"q8": 4}


@torch.no_grad()
def variants_of(pipelines, options):
    """Every variant by its name."""
    model = pipelines.analysis
    frames, _ = signals.batch(256, model.n)
    return {
        "model": model,
        "compiled": torch.compile(model, backend="lfarm", options=options),
        "hard": forms.hard(model),
        "q8": forms.q8(model),
        "ternary": forms.ternary(model),
        "unitary": forms.unitary(model),
        "distilled": forms.distilled(model, frames),
    }


@torch.no_grad()
def variants(gates, pipelines, bands, options):
    """All variants, by their names."""
    frames, segments = signals.batch(64, pipelines.analysis.n)
    x = real_signal(frames)
    made = variants_of(pipelines, options)
    away = ratio(made["compiled"](x), made["model"](x))
    gates.add("compiled, the same as model", "error", away, 1e-5)
    for name, transform in made.items():
        found = measured(transform, pipelines, frames, segments, bands)
        for pipeline, value in found.items():
            limit = LIMITS[pipeline] * WIDER.get(name, 1)
            gates.add(f"{name}, {pipeline}", "error", value, limit)
        print(f"  {name}: {microseconds(transform, x):.0f} us for {len(x)} transforms")
    print(f"  torch.fft: {microseconds(torch.fft.fft, torch.complex(x[:, 0], x[:, 1])):.0f} us")
    return made


def microseconds(function, x, rounds=20):
    """The median time of a call."""
    function(x)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function(x)
        times.append(time.perf_counter() - start)
    return 1e6 * sorted(times)[rounds // 2]
