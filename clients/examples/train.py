"""Training with lfarm's plans, by torch's optimiser and by a step of lfarm's own: train.py"""

import lfarm
import torch


class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 1)
        )

    def forward(self, x, y):
        return (self.layers(x)[:, 0] - y).square().mean()


torch.manual_seed(0)
x = torch.randn(64, 8)
y, model = x.sin().sum(1), Loss()
step = lfarm.train_step(torch.export.export(model, (x, y)), lfarm.AdamW(rate=1e-2))
ours, optimiser = torch.compile(model, backend="lfarm"), torch.optim.AdamW(model.parameters(), 1e-2)
for _ in range(100):
    optimiser.zero_grad()
    by_torch = ours(x, y)
    by_torch.backward()
    optimiser.step()
    by_lfarm = step(x, y)
torch.testing.assert_close(by_lfarm, by_torch.detach(), rtol=1e-3, atol=1e-4)
print(f"both losses are {by_lfarm.item():.4f}")
