"""`make demo`: a believable account, a few runs of the real reapers, and what became of everybody.

It is an acceptance test as well: it fails where the outcome differs from the story.

- `fleet.py` and `storage.py` are the cast: every machine and volume, and what must become of it in each run;
- `seed.py` and `seed_storage.py` build the account of them;
- `story.py` is the plot: the runs (`run.py`), and what people do between them (`undo.py`);
- `show.py` and `screen.py` tell it in a terminal;
- `budgets.py` and `jobs.py` are its last acts: a budget that is crossed, and a job whose machines (`machines.py`) come and go;
- `verdict.py` compares what happened with the story.
"""
