"""JAX with Orbax: a checkpoint every 5 steps, and it keeps three."""

import os
import sys
import time

import curfew
import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp

STEPS = 60


@jax.jit
def update(state):
    key, now = jax.random.split(state["key"])
    return {"key": key, "weights": state["weights"] * 0.9 + jax.random.normal(now, (64,))}


state = {"key": jax.random.PRNGKey(7), "weights": jnp.zeros(64)}
# Curfew, from here …
manager = ocp.CheckpointManager(os.environ["CURFEW_CHECKPOINT_DIR"], options=ocp.CheckpointManagerOptions(max_to_keep=3))
done = manager.latest_step() or 0
if done:
    state = manager.restore(done, args=ocp.args.StandardRestore(state))
# … to here.
for step in range(done + 1, STEPS + 1):
    state = update(state)
    print("step", step, flush=True)
    time.sleep(float(os.environ.get("PAUSE", 0)))
    # Curfew: at a warning the step that is done is saved. Orbax's own `reached_preemption` hears it only under `jax.distributed`.
    if (stop := curfew.should_stop()) or step % 5 == 0:
        manager.save(step, args=ocp.args.StandardSave(state))
    if stop:
        manager.close()
        sys.exit(143)
manager.close()
with open(sys.argv[1], "w") as result:
    print(jax.device_get(state["weights"]).tobytes().hex(), file=result)
