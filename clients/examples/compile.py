"""torch.compile with lfarm's plans, compared with eager: compile.py"""

import torch

model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))
x = torch.randn(8, 64)
with torch.no_grad():
    ours = torch.compile(model, backend="lfarm")(x)
    torch.testing.assert_close(ours, model(x))
print("the same as eager:", tuple(ours.shape))
