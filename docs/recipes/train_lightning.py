"""Lightning: the newest checkpoint of every 5 steps, and one at a warning, which Lightning makes an exception of."""

import os
import sys
import time

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torchdata.stateful_dataloader import StatefulDataLoader


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))

    def training_step(self, batch):
        return torch.nn.functional.mse_loss(self.layers(batch), batch[:, :1])

    def on_train_batch_end(self, *_):
        """Shows each step, and is as slow as a check asks for."""
        print("step", self.global_step, flush=True)
        time.sleep(float(os.environ.get("PAUSE", 0)))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 0.01)


lightning.seed_everything(7)
model, rows = Model(), torch.randn(80, 8)
# Lightning resumes within an epoch only if the loader knows its position.
loader = StatefulDataLoader(rows, batch_size=4, shuffle=True)
# Curfew, from here …
keep = ModelCheckpoint(os.environ["CURFEW_CHECKPOINT_DIR"], every_n_train_steps=5, save_on_exception=True)
trainer = lightning.Trainer(max_steps=60, callbacks=[keep], accelerator="auto", logger=False, enable_progress_bar=False)
trainer.fit(model, loader, ckpt_path=os.environ.get("CURFEW_RESUME_FROM"))
# … to here.
with open(sys.argv[1], "w") as result:
    print({name: weights.tolist() for name, weights in model.state_dict().items()}, file=result)
