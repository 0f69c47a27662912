"""XGBoost: a model every 5 rounds, and the training resumes from the newest."""

import os
import sys
import time

import numpy
import xgboost

ROUNDS = 60


class Pace(xgboost.callback.TrainingCallback):
    """Shows each round, and is as slow as a check asks for."""

    def after_iteration(self, model, epoch, evals_log):
        print("step", model.num_boosted_rounds(), flush=True)
        time.sleep(float(os.environ.get("PAUSE", 0)))
        return False


numbers = numpy.random.default_rng(7)
rows = numbers.normal(size=(500, 8))
data = xgboost.DMatrix(rows, rows[:, 0] * rows[:, 1] > 0)

# Curfew, from here …
model = os.environ.get("CURFEW_RESUME_FROM")
done = xgboost.Booster(model_file=model).num_boosted_rounds() if model else 0
keep = xgboost.callback.TrainingCheckPoint(os.environ["CURFEW_CHECKPOINT_DIR"], interval=5)
trained = xgboost.train({"max_depth": 3}, data, ROUNDS - done, xgb_model=model, callbacks=[keep, Pace()])
# … to here.
trained.save_model(sys.argv[1])
