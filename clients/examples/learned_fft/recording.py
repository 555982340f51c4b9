"""What `train.py --record FILE` writes for `lfarm report`: the training's course, and how the variants do."""

import contextlib

import torch

import gates
import signals
from lfarm import TrainingLog, ValidationLog
from pipelines import Objective, real_signal, reference
from transform import exact_angles

EVERY = 10  # steps between losses by part
MAPS_EVERY = 50  # steps between masks
BATCHES = (1, 4, 16, 64, 256)


def twiddle_error(part):
    """How far the worst angle is from the Fourier transform's."""
    return (part.angles - exact_angles(part.n)).abs().max().item()


def parts_of(pipelines):
    return {"analysis": pipelines.analysis, "synthesis": pipelines.synthesis}


class Recording:
    """Of one training; without a file it does nothing."""

    def __init__(self, file, pipelines, bands, device="cpu"):
        self.pipelines, self.bands, self.device = pipelines, bands, device
        self.file, self.name = file, f"learned_fft, n {pipelines.analysis.n}"
        self.log = TrainingLog(file, self.name, device=device) if file else None

    @torch.no_grad()
    def step(self, step, loss, frames, segments):
        """After a step on these signals. Parts of the loss are computed anew, by eager PyTorch."""
        if self.log is None:
            return
        values = {"loss/all": loss}
        if step % EVERY == 0:
            wanted = reference(frames, segments, self.bands)
            losses = Objective(self.pipelines).losses(frames, segments, wanted)
            values.update({f"loss/{name}": value for name, value in losses.items()})
            for name, part in parts_of(self.pipelines).items():
                values[f"worst angle, radians/{name}"] = twiddle_error(part)
            x = real_signal(frames)
            exact = gates.native(x)
            values["error of the spectrum"] = gates.ratio(self.pipelines.analysis(x), exact)
        self.log.values(step, values)
        if step % MAPS_EVERY == 0:
            self.maps(step)

    def maps(self, step):
        for name, part in parts_of(self.pipelines).items():
            butterflies = {"rows": "stage", "columns": "butterfly"}
            self.log.map(f"gates, {name}", part.gates, step, **butterflies)
            away = part.angles - exact_angles(part.n)
            self.log.map(f"angles off, {name}", away, step, **butterflies)
            self.log.map(f"mask, {name}", part.mask, step, columns="frequency")

    def end(self, step, optimiser, landscape):
        """After the last step. `landscape`: whether to compute the loss around it as well."""
        if self.log is None:
            return
        self.maps(step)
        filters = self.pipelines.filters
        self.log.map("mel filters", filters, step, rows="band", columns="frequency")
        self.log.parts(self.pipelines, optimiser)
        if landscape:
            frames, segments = signals.batch(8, self.pipelines.analysis.n)
            wanted = reference(frames, segments, self.bands)
            objective = Objective(self.pipelines)
            trained = [part.angles for part in parts_of(self.pipelines).values()]
            self.log.landscape("loss", lambda: objective(frames, segments, wanted), trained, radius=0.02)
        self.log.close()

    @torch.no_grad()
    def variants(self, made):
        """Times and errors of all variants at several batches. `made`: by their names."""
        if self.log is None:
            return
        with contextlib.closing(
            ValidationLog(self.file, self.name, teacher="model", device=self.device)
        ) as log:
            for batch in BATCHES:
                x = real_signal(signals.batch(batch, self.pipelines.analysis.n)[0])
                exact = gates.native(x)
                for name, transform in made.items():
                    error = gates.ratio(transform(x), exact)
                    log.measure(name, batch, lambda: transform(x), error)  # noqa: B023: called at once
