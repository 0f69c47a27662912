"""PyTorch with a DataLoader whose worker processes have to outlive the signal: the step that it interrupts needs their next batch."""

import os
import sys
import time

import curfew
import torch
from torch.utils.data import DataLoader, Dataset

STEPS = 60


class Rows(Dataset):
    """Each row is made from its number, so that a resumed run sees the same."""

    def __init__(self, begin: int) -> None:
        self.begin = begin

    def __len__(self) -> int:
        return STEPS - self.begin

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.randn(4, 8, generator=torch.Generator().manual_seed(self.begin + index))


torch.manual_seed(7)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters())
# Curfew, from here …
path, step = curfew.resume()
if path:
    saved = torch.load(path)
    model.load_state_dict(saved["model"]), optimizer.load_state_dict(saved["optimizer"])
# … to here.
for rows in DataLoader(Rows(step), batch_size=None, num_workers=2, persistent_workers=True):
    step += 1
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(rows), rows[:, :1]).backward()
    optimizer.step()
    print("step", step, flush=True)
    time.sleep(float(os.environ.get("PAUSE", 0)))
    if (stop := curfew.should_stop()) or step % 5 == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file := curfew.path(f"step={step}.pt"))
        # Curfew: the file is complete.
        curfew.saved(file)
    if stop:
        sys.exit(143)
with open(sys.argv[1], "w") as result:
    print([weights.tolist() for weights in model.parameters()], file=result)
