#!/usr/bin/env python3
"""torch_kernels.py: what PyTorch's own libraries (cuBLASLt, cuDNN, FlashAttention) take on this
machine's GPU for the products, attentions and convolutions that `lfarm-bench gpu` and the search
measure, one JSON object a line.

Tensors are random bfloat16. Times are medians of the device's events over calls that find the
second-level cache flushed. Exits 3 where PyTorch or the GPU is missing."""

import json
import statistics
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(f"torch_kernels: no PyTorch: {error}", file=sys.stderr)
    sys.exit(3)

RUNS = 20
FLUSHED_CACHES = 2  # of the size of the second-level cache

PRODUCTS = [(2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (2048, 6144, 4096),
            (2048, 4096, 4096), (2048, 28672, 4096), (2048, 4096, 14336), (16, 4096, 4096),
            (16, 14336, 4096), (16, 4096, 14336), (64, 4096, 14336), (1, 4096, 4096),
            (1, 14336, 4096), (1, 128256, 4096)]
# heads, groups, rows, keys, depth, causal
ATTENTIONS = [(32, 8, 2048, 2048, 128, True), (32, 8, 4096, 4096, 128, True),
              (32, 8, 1, 1024, 128, False), (32, 8, 1, 8192, 128, False)]
# batch, channels in, channels out, size, kernel, stride
CONVOLUTIONS = [(32, 64, 64, 56, 3, 1), (32, 128, 128, 28, 3, 1), (32, 256, 256, 14, 3, 1),
                (32, 512, 512, 7, 3, 1), (32, 3, 64, 224, 7, 2)]


def random(*shape):
    return torch.randn(shape, dtype=torch.bfloat16, device="cuda")


def median_us(call):
    """Of calls with cold caches, after some that nobody counts."""
    for _ in range(3):
        call()
    cache = torch.cuda.get_device_properties(0).L2_cache_size * FLUSHED_CACHES
    flushed = torch.empty(cache, dtype=torch.uint8, device="cuda")
    times = []
    for _ in range(RUNS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flushed.zero_()
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


def tell(kind, us, operations, **sizes):
    print(json.dumps({"torch": kind, **sizes, "us": round(us, 2),
                      "tflops": round(operations / us * 1e-6, 1)}), flush=True)


def main():
    if not torch.cuda.is_available():
        print("torch_kernels: this PyTorch sees no GPU", file=sys.stderr)
        return 3
    from_bytes, to_bytes = (torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(2))
    copy_us = median_us(lambda: to_bytes.copy_(from_bytes))
    print(json.dumps({"torch": "copy", "us": round(copy_us, 2),
                      "gb_per_s": round(2 * (1 << 30) / copy_us * 1e-3, 1)}), flush=True)
    del from_bytes, to_bytes
    for m, n, k in PRODUCTS:
        x, w = random(m, k), random(n, k)
        tell("product", median_us(lambda: F.linear(x, w)), 2 * m * n * k, m=m, n=n, k=k)
    for heads, groups, rows, keys, depth, causal in ATTENTIONS:
        q, k, v = random(1, heads, rows, depth), random(1, groups, keys, depth), random(1, groups, keys, depth)
        us = median_us(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True))
        tell("attention", us, (2 if causal else 4) * heads * rows * keys * depth,
             heads=heads, rows=rows, keys=keys, depth=depth)
    for batch, inner, outer, size, kernel, stride in CONVOLUTIONS:
        x = random(batch, inner, size, size).to(memory_format=torch.channels_last)
        w = random(outer, inner, kernel, kernel).to(memory_format=torch.channels_last)
        us = median_us(lambda: F.conv2d(x, w, stride=stride, padding=kernel // 2))
        tell("convolution", us, 2 * batch * outer * inner * kernel**2 * (size // stride) ** 2,
             batch=batch, channels=inner, filters=outer, size=size, kernel=kernel, stride=stride)
    return 0


if __name__ == "__main__":
    sys.exit(main())
