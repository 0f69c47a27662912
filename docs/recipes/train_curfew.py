"""Any training with `curfew.py`: each checkpoint is marked, and at a warning the step that is done is saved."""

import os
import pickle
import random
import sys
import time

import curfew

STEPS = 120

# Curfew, from here …
path, step = curfew.resume()
random.setstate(pickle.load(open(path, "rb"))) if path else random.seed(7)
# … to here.
while step < STEPS:
    step, value = step + 1, random.random()
    print("step", step, flush=True)
    time.sleep(float(os.environ.get("PAUSE", 0)))
    # Curfew: asked once a step, for the answer may change.
    if (stop := curfew.should_stop()) or step % 10 == 0:
        with open(curfew.path("state.pickle.tmp"), "wb") as file:
            pickle.dump(random.getstate(), file)
        os.replace(file.name, curfew.path("state.pickle"))
        curfew.saved(curfew.path("state.pickle"), step)
    if stop:
        sys.exit(143)
with open(sys.argv[1], "w") as result:
    print(random.random(), file=result)
