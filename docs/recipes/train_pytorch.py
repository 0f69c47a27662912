"""PyTorch: one file a checkpoint, with the model, the optimizer and the state of randomness."""

import os
import sys
import time

import curfew
import torch

STEPS = 60

torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters())
# Curfew, from here …
path, step = curfew.resume()
if path:
    saved = torch.load(path)
    model.load_state_dict(saved["model"]), optimizer.load_state_dict(saved["optimizer"]), torch.set_rng_state(saved["random"])
# … to here.
while step < STEPS:
    step, rows = step + 1, torch.randn(4, 8)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(rows), rows[:, :1]).backward()
    optimizer.step()
    print("step", step, flush=True)
    time.sleep(float(os.environ.get("PAUSE", 0)))
    if (stop := curfew.should_stop()) or step % 5 == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state()}
        torch.save(state, file := curfew.path(f"step={step}.pt"))
        # Curfew: the file is complete.
        curfew.saved(file)
    if stop:
        sys.exit(143)
with open(sys.argv[1], "w") as result:
    print([weights.tolist() for weights in model.parameters()], file=result)
