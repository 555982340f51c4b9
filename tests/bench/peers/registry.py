"""The models that make_models.py exports, by name."""
import torch

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# name -> (function of a dtype that returns (module, arguments), names of its dtypes, group)
MODELS = {}


def model(name, only=tuple(DTYPES), group="peers"):
    """Registers a function dtype -> (module, arguments) under a name."""
    def register(build):
        MODELS[name] = (build, only, group)
        return build
    return register
