"""ultralytics: `last.pt`, which is overwritten after each epoch. The data are made here, and the model begins without weights."""

import os
import sys
import tempfile
import time

import cv2
import numpy
from ultralytics import YOLO

EPOCHS = 12

numbers, data = numpy.random.default_rng(7), tempfile.mkdtemp()
os.makedirs(f"{data}/images")
os.makedirs(f"{data}/labels")
for image in range(8):
    cv2.imwrite(f"{data}/images/{image}.png", numbers.integers(0, 255, (64, 64, 3)))
    with open(f"{data}/labels/{image}.txt", "w") as label:
        print(0, *numbers.uniform(0.4, 0.6, 4), file=label)
with open(f"{data}/data.yaml", "w") as description:
    print(f"path: {data}\ntrain: images\nval: images\nnames: [thing]", file=description)


def pace(trainer):
    """Is as slow as a check asks for."""
    time.sleep(5 * float(os.environ.get("PAUSE", 0)))


# Curfew, from here …
path = os.environ.get("CURFEW_RESUME_FROM")
model = YOLO(path or "yolo11n.yaml")
model.add_callback("on_train_batch_end", pace)
model.add_callback("on_model_save", lambda trainer: print("step", trainer.epoch + 1, flush=True))
model.train(data=f"{data}/data.yaml", project=os.environ["CURFEW_CHECKPOINT_DIR"], epochs=EPOCHS, imgsz=64, batch=4, resume=bool(path))
# … to here.
with open(model.trainer.csv) as table, open(sys.argv[1], "w") as result:
    print("epochs", sorted({int(line.split(",")[0]) for line in list(table)[1:]}), file=result)
