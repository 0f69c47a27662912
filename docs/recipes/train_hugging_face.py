"""Hugging Face Trainer: a checkpoint every 5 steps, and it keeps the newest and the best; `--jit` saves at a warning as well."""

import os
import sys
import time

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments, default_data_collator, set_seed


class Network(torch.nn.Module):
    """It has dropout, so that the state of randomness counts."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))

    def forward(self, rows, labels):
        return {"loss": torch.nn.functional.mse_loss(self.layers(rows), labels)}


class Pace(TrainerCallback):
    """Shows each step, and is as slow as a check asks for."""

    def on_step_end(self, args, state, control, **_):
        print("step", state.global_step, flush=True)
        time.sleep(float(os.environ.get("PAUSE", 0)))


set_seed(7)
rows = torch.randn(100, 8)
# The evaluation asks for something else, so that the best checkpoint is an early one.
data = [{"rows": row, "labels": row[:1] * (2 if index < 80 else 0.5)} for index, row in enumerate(rows)]
arguments = {"per_device_train_batch_size": 4, "max_steps": 60, "learning_rate": 0.02, "save_steps": 5, "eval_steps": 5}
arguments |= {"eval_strategy": "steps", "load_best_model_at_end": True, "save_total_limit": 2, "report_to": "none", "disable_tqdm": True}
# Curfew, from here …
arguments |= {"output_dir": os.environ["CURFEW_CHECKPOINT_DIR"], "enable_jit_checkpoint": "--jit" in sys.argv}
trainer = Trainer(Network(), TrainingArguments(**arguments), default_data_collator, data[:80], data[80:], callbacks=[Pace()])
trainer.train(resume_from_checkpoint=os.environ.get("CURFEW_RESUME_FROM"))
# … to here.
losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
best = {name: weights.tolist() for name, weights in trainer.model.state_dict().items()}
with open(sys.argv[-1], "w") as result:
    print(losses, os.path.basename(trainer.state.best_model_checkpoint), best, file=result)
