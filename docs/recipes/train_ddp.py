"""PyTorch DDP under torchrun: rank 0 writes one file a checkpoint, and all ranks read it. On one machine or, with `nodes`, on several."""

import os
import sys
import time

import curfew
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

STEPS = 60

device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
rank = distributed.get_rank()
torch.manual_seed(7)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(device)
model = DistributedDataParallel(net, device_ids=[device.index] if device.index is not None else None)
optimizer = torch.optim.AdamW(model.parameters())
# Curfew, from here …
path, step = curfew.resume()
if path:
    saved = torch.load(path, map_location=device)
    net.load_state_dict(saved["model"]), optimizer.load_state_dict(saved["optimizer"])
# … to here.
stop = False
while step < STEPS and not stop:
    step += 1
    rows = torch.randn(4, 8, generator=torch.Generator().manual_seed(step * 100 + rank)).to(device)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(rows), rows[:, :1]).backward()
    optimizer.step()
    if rank == 0:
        print("step", step, flush=True)
    time.sleep(float(os.environ.get("PAUSE", 0)))
    # Curfew: the first rank that gets the signal ends all of them at the same step.
    distributed.all_reduce(flag := torch.tensor(int(curfew.should_stop()), device=device), distributed.ReduceOp.MAX)
    stop = bool(flag)
    if rank == 0 and (stop or step % 5 == 0):
        torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, file := curfew.path(f"step={step}.pt"))
        # Curfew: the file is complete.
        curfew.saved(file)
# No rank ends before the others are done: torchrun of a node whose ranks have ended waits for the other nodes.
distributed.barrier()
distributed.destroy_process_group()
if stop:
    sys.exit(143)
if rank == 0:
    with open(sys.argv[1], "w") as result:
        print([weights.tolist() for weights in net.parameters()], file=result)
