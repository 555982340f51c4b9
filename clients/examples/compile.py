"""torch.compile with lfarm's plans, compared with eager: compile.py"""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))
model, x = model.to(device), torch.randn(8, 64, device=device)
with torch.no_grad():
    ours = torch.compile(model, backend="lfarm")(x)
    torch.testing.assert_close(ours, model(x))
print("the same as eager:", tuple(ours.shape))
