"""What an exported graph takes for granted about a call's sizes, to be looked at before each call.

The exporter may find that a size that Dynamo lets change can have one value only: where a window of keys is
full, its mask has a fixed length, and so have the keys.

>>> held = Premises(sizes=((0, 1, 9),))
>>> held.hold([torch.zeros(2, 9)]), held.hold([torch.zeros(2, 8)])
(True, False)
"""

from __future__ import annotations

import dataclasses
from typing import Any, Sequence


@dataclasses.dataclass(frozen=True)
class Premises:
    """`sizes`: a tensor's position among the inputs, an axis, and the only size that the program takes
    there."""

    sizes: tuple[tuple[int, int, int], ...]

    def __bool__(self) -> bool:
        return bool(self.sizes)

    def hold(self, inputs: Sequence[Any]) -> bool:
        """Whether they are true of a call's inputs."""
        return all(inputs[at].shape[axis] == size for at, axis, size in self.sizes)
