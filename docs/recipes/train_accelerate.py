"""Accelerate under torchrun: `save_state` on all ranks, each of which writes its random state beside the model of rank 0."""

import os
import sys
import time

import curfew
import torch
from accelerate import Accelerator

STEPS = 60

accelerator = Accelerator()
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
torch.manual_seed(accelerator.process_index)
# Curfew, from here …
path, step = curfew.resume()
if path:
    accelerator.load_state(path)
# … to here.
stop = False
while step < STEPS and not stop:
    step, rows = step + 1, torch.randn(4, 8).to(accelerator.device)
    optimizer.zero_grad()
    accelerator.backward(torch.nn.functional.mse_loss(model(rows), rows[:, :1]))
    optimizer.step()
    accelerator.print("step", step, flush=True)
    time.sleep(float(os.environ.get("PAUSE", 0)))
    # Curfew: the first rank that gets the signal ends all of them at the same step.
    stop = bool(accelerator.gather(torch.tensor([int(curfew.should_stop())], device=accelerator.device)).max())
    if stop or step % 5 == 0:
        accelerator.save_state(folder := curfew.path(f"step-{step}"))
        accelerator.wait_for_everyone()
        # Curfew: this node has all of its part.
        if accelerator.is_local_main_process:
            curfew.saved(folder)
accelerator.end_training()
if stop:
    sys.exit(143)
if accelerator.is_main_process:
    with open(sys.argv[1], "w") as result:
        print([weights.tolist() for weights in model.parameters()], file=result)
