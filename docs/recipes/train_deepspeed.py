"""DeepSpeed (ZeRO) under torchrun: `save_checkpoint` on all ranks, each of which writes its part of the optimizer."""

import os
import sys
import time

import curfew
import deepspeed
import torch
from torch import distributed

STEPS = 60
CONFIG = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}, "zero_allow_untested_optimizer": True}

deepspeed.init_distributed("nccl" if torch.cuda.is_available() else "gloo")
rank = distributed.get_rank()
torch.manual_seed(7)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
engine, *_ = deepspeed.initialize(model=net, optimizer=torch.optim.AdamW(net.parameters()), config=CONFIG)
# Curfew, from here …
path, step = curfew.resume()
if path:
    engine.load_checkpoint(*os.path.split(path))
# … to here.
stop = False
while step < STEPS and not stop:
    step += 1
    rows = torch.randn(4, 8, generator=torch.Generator().manual_seed(step * 100 + rank)).to(engine.device)
    engine.backward(torch.nn.functional.mse_loss(engine(rows), rows[:, :1]))
    engine.step()
    if rank == 0:
        print("step", step, flush=True)
    time.sleep(float(os.environ.get("PAUSE", 0)))
    # Curfew: the first rank that gets the signal ends all of them at the same step.
    distributed.all_reduce(flag := torch.tensor(int(curfew.should_stop()), device=engine.device), distributed.ReduceOp.MAX)
    stop = bool(flag)
    if stop or step % 5 == 0:
        engine.save_checkpoint(*os.path.split(folder := curfew.path(f"global_step{step}")))
        if int(os.environ["LOCAL_RANK"]) == 0:
            # Curfew: all ranks have written, so this machine has all of its part.
            curfew.saved(folder)
distributed.barrier()
distributed.destroy_process_group()
if stop:
    sys.exit(143)
if rank == 0:
    with open(sys.argv[1], "w") as result:
        print([weights.tolist() for weights in net.parameters()], file=result)
