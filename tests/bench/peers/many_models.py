"""Exports a small model of every kind that transformers and torchvision have, as cases for `lfarm check`.

Usage: many_models.py OUT_DIR [--from transformers|torchvision]... [--dynamic] [--seconds N] [NAME ...]

Configurations are the library's own with few layers, narrow widths and small vocabularies, weights are random.
--dynamic: batches and lengths are symbolic, and each case has inputs and outputs of three more sizes. A line a model
says "ok", or "no" and what PyTorch or the library said; models that are there already are left as they are.
Needs torch and the libraries; scipy for segmentation models.
"""
import argparse
import json
import os
import signal
import sys
import zlib

import torch
from torch import nn

from make_models import TOLERANCES, save_arrays, tensors

SEQUENCE, VOCABULARY, MOST_PARAMETERS = 16, 500, 60_000_000
SMALL = {
    64: ("hidden_size d_model n_embd embed_dim dim embedding_size embedding_dim word_embed_proj_dim moe_intermediate_size "
         "image_size"),
    2: ("num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers "
        "num_key_value_heads num_experts_per_tok"),
    4: ("num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads num_experts "
        "num_local_experts n_routed_experts"),
    128: ("intermediate_size d_ff ffn_dim encoder_ffn_dim decoder_ffn_dim hidden_dim n_inner max_position_embeddings "
          "n_positions"),
    16: "head_dim d_kv patch_size", 10: "num_queries", 5: "num_labels", VOCABULARY: "vocab_size"}
TASKS = {
    "causal": "CAUSAL_LM", "masked": "MASKED_LM", "seq2seq": "SEQ_TO_SEQ_CAUSAL_LM", "image": "IMAGE_CLASSIFICATION",
    "semantic": "SEMANTIC_SEGMENTATION", "universal": "UNIVERSAL_SEGMENTATION", "depth": "DEPTH_ESTIMATION",
    "detection": "OBJECT_DETECTION", "super": "IMAGE_TO_IMAGE", "keypoint": "KEYPOINT_DETECTION",
    "video": "VIDEO_CLASSIFICATION", "audio": "AUDIO_CLASSIFICATION", "ctc": "CTC", "speech": "SPEECH_SEQ_2_SEQ"}
IMAGES = ("image", "semantic", "universal", "depth", "detection", "super", "keypoint")


class TooSlow(Exception):
    pass


class Flat(nn.Module):
    """A model called by names that answers with its tensors in a list."""

    def __init__(self, inner, names):
        super().__init__()
        self.inner, self.names = inner, names

    def forward(self, *values):
        answer = self.inner(**dict(zip(self.names, values))) if self.names else self.inner(*values)
        return tensors(dict(answer) if hasattr(answer, "keys") else answer)


def shrink(config):
    for size, names in SMALL.items():
        for name in names.split():
            value = getattr(config, name, None)
            if isinstance(value, int) and not isinstance(value, bool):
                try:
                    setattr(config, name, size)
                except (AttributeError, ValueError, TypeError):
                    pass  # a property that follows from others
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        token = getattr(config, name, None)
        if isinstance(token, int) and token >= VOCABULARY:
            setattr(config, name, 1)
    kinds = getattr(config, "layer_types", None)
    if kinds:
        config.layer_types = [min(kinds), max(kinds)]
    for name in ("text_config", "vision_config", "audio_config"):
        inner = getattr(config, name, None)
        if inner is not None and not isinstance(inner, dict):
            shrink(inner)


def configuration(kind):
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    config = CONFIG_MAPPING[kind]()
    if hasattr(config, "use_timm_backbone") or kind in ("detr", "conditional_detr", "dab-detr", "deformable_detr",
                                                        "table-transformer"):
        stages = ["stage2", "stage3", "stage4"] if kind == "deformable_detr" else ["stage4"]
        backbone = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1] * 4,
                                             out_features=stages)
        config = CONFIG_MAPPING[kind](use_timm_backbone=False, backbone=None, backbone_config=backbone)
    shrink(config)
    config.use_cache = False
    return config


def inputs_of(task, model, config):
    """By the names of the model's arguments: tokens (1, 16), images (1, channels, n, n), 8,000 samples of sound."""
    tokens = torch.randint(2, 400, (1, SEQUENCE))
    if task in ("causal", "masked"):
        return {"input_ids": tokens}
    if task == "seq2seq":
        return {"input_ids": tokens, "decoder_input_ids": torch.randint(2, 400, (1, SEQUENCE // 2))}
    if task in IMAGES:
        size = getattr(config, "image_size", 64)
        size = 256 if task == "detection" else size if isinstance(size, int) else size[0]
        return {"pixel_values": torch.randn(1, getattr(config, "num_channels", 3), size, size)}
    if task == "video":
        return {"pixel_values": torch.randn(1, getattr(config, "num_frames", 4), 3, 64, 64)}
    if task == "speech":
        frames = 2 * getattr(config, "max_source_positions", 1500)
        return {model.main_input_name: torch.randn(1, getattr(config, "num_mel_bins", 80), frames),
                "decoder_input_ids": torch.randint(2, 400, (1, SEQUENCE // 2))}
    return {"input_values": torch.randn(1, 8000)}


def transformers_models():
    """(name, function that makes the model and its inputs)"""
    import transformers
    from transformers.models.auto import modeling_auto

    def build(task, kind, class_name):
        config = configuration(kind)
        model = getattr(transformers, class_name)(config)
        if sum(parameter.numel() for parameter in model.parameters()) > MOST_PARAMETERS:
            raise ValueError("too large")
        inputs = inputs_of(task, model, config)
        return Flat(model, list(inputs)), tuple(inputs.values())

    for task, words in TASKS.items():
        for kind, name in getattr(modeling_auto, f"MODEL_FOR_{words}_MAPPING_NAMES", {}).items():
            name = name[0] if isinstance(name, (tuple, list)) else name
            yield f"{task}_{kind}", lambda task=task, kind=kind, name=name: build(task, kind, name)


def torchvision_models():
    from torchvision import models
    rooms = {"image": (models, (2, 3, 96, 96)), "semantic": (models.segmentation, (1, 3, 96, 96)),
             "video": (models.video, (1, 3, 8, 64, 64))}

    def build(name, shape):
        given = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        if name in models.list_models(module=models.segmentation):
            given["weights_backbone"] = None
        if any(word in name for word in ("vit_", "swin_", "maxvit")):
            shape = (*shape[:-2], 224, 224)
        if name == "inception_v3":
            shape = (*shape[:-2], 128, 128)
        return Flat(models.get_model(name, weights=None, **given), []), (torch.randn(shape),)

    for room, (module, shape) in rooms.items():
        for name in models.list_models(module=module):
            yield f"torchvision_{room}_{name}", lambda name=name, shape=shape: build(name, shape)


def resized(value, batch, length):
    if value.dtype == torch.int64:
        return torch.randint(2, 400, (batch, length * value.shape[1] // SEQUENCE))
    return torch.randn(batch, *value.shape[1:])


def save(folder, module, inputs, dynamic):
    module.eval()
    for parameter in module.parameters():  # weights that begin as zeros or ones hide mistakes
        parameter.data.add_(torch.randn_like(parameter) * 0.05)
    shapes, sizes = None, []
    if dynamic:
        inputs = tuple(value.expand(2, *value.shape[1:]).clone() if value.shape[0] == 1 else value for value in inputs)
        auto = torch.export.Dim.DYNAMIC
        shapes = (tuple({0: auto, 1: auto} if value.dtype == torch.int64 else {0: auto} for value in inputs),)
        sizes = [(5, 22), (3, SEQUENCE), (2, 14)]
    with torch.no_grad():
        program = torch.export.export(module, inputs, dynamic_shapes=shapes, strict=False)
        os.makedirs(folder, exist_ok=True)
        torch.export.save(program, os.path.join(folder, "model.pt2"))
        meta = {"name": os.path.basename(folder), "torch": torch.__version__, "tolerance": TOLERANCES["f32"]}
        meta["inputs"] = save_arrays(os.path.join(folder, "inputs"), inputs)
        meta["outputs"] = save_arrays(os.path.join(folder, "outputs"), module(*[value.clone() for value in inputs]))
        for number, (batch, length) in enumerate(sizes, 1):
            others = tuple(resized(value, batch, length) for value in inputs)
            where = os.path.join(folder, "sizes", str(number))
            save_arrays(os.path.join(where, "inputs"), others)
            save_arrays(os.path.join(where, "outputs"), module(*[value.clone() for value in others]))
    with open(os.path.join(folder, "meta.json"), "w") as file:
        json.dump(meta, file, indent=1)


def alarm(*_):
    raise TooSlow("takes too long")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sources = {"transformers": transformers_models, "torchvision": torchvision_models}
    parser.add_argument("out")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--from", dest="sources", action="append", choices=sources)
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--seconds", type=int, default=90, help="for one model")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, alarm)
    for source in options.sources or sources:
        for name, build in sources[source]():
            folder = os.path.join(options.out, name)
            if (options.names and name not in options.names) or os.path.exists(os.path.join(folder, "meta.json")):
                continue
            torch.manual_seed(zlib.crc32(name.encode()))
            signal.alarm(options.seconds)
            try:
                save(folder, *build(), options.dynamic)
                print("ok", name, flush=True)
            except Exception as error:  # the other models are still worth having
                print("no", name, type(error).__name__, *str(error).strip().splitlines()[:1], flush=True)
            finally:
                signal.alarm(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
