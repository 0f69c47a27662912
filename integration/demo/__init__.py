"""`make demo`: a believable account, a few runs of the real reapers, and what became of everybody.

It is an acceptance test as well: it ends where something is not as in the story (`run.expect`).

- `fleet.py` and `storage.py` are the cast: every machine and volume;
- `seed.py` and `seed_storage.py` build the account of them;
- `story.py` is the plot: the runs (`run.py`), and what people do between them (`command.py`);
- `show.py` and `screen.py` tell it in a terminal;
- `budgets.py` and `jobs.py` are its last acts: a budget that is crossed, and a job whose machines (`machines.py`) come and go.
"""
