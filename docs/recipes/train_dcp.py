"""PyTorch's distributed checkpoints (DCP) under torchrun: each rank writes and reads its part of a model that is sharded over all of them."""

import gc
import os
import sys
import time

import curfew
import torch
import torch.distributed.checkpoint as dcp
from torch import distributed
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

STEPS = 60


def parts_of(model, optimizer):
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments}


def train():
    """The weights, or nothing where the machine is taken away first."""
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    fully_shard(model, mesh=init_device_mesh("cpu", (distributed.get_world_size(),)))
    optimizer = torch.optim.AdamW(model.parameters())
    # Curfew, from here …
    path, step = curfew.resume()
    if path:
        dcp.load(state := parts_of(model, optimizer), checkpoint_id=path)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    # … to here.
    while step < STEPS:
        step += 1
        rows = torch.randn(4, 8, generator=torch.Generator().manual_seed(step * 100 + distributed.get_rank()))
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(rows), rows[:, :1]).backward()
        optimizer.step()
        if distributed.get_rank() == 0:
            print("step", step, flush=True)
        time.sleep(float(os.environ.get("PAUSE", 0)))
        # Curfew: the first rank that gets the signal ends all of them at the same step.
        distributed.all_reduce(stop := torch.tensor(int(curfew.should_stop())), distributed.ReduceOp.MAX)
        if step % 5 == 0 or stop:
            dcp.save(parts_of(model, optimizer), checkpoint_id=(folder := curfew.path(f"step-{step}")))
            if int(os.environ["LOCAL_RANK"]) == 0:
                # All ranks have written, so this machine has all of its part.
                curfew.saved(folder)
        if stop:
            return None
    return {name: tensor.full_tensor().tolist() for name, tensor in model.state_dict().items()}


distributed.init_process_group("gloo")
weights, is_first = train(), distributed.get_rank() == 0
# Gloo aborts where a model that is not freed yet still uses it.
gc.collect()
distributed.destroy_process_group()
if weights is None:
    sys.exit(143)
if is_first:
    with open(sys.argv[1], "w") as result:
        print(weights, file=result)
