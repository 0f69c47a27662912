"""`make demo`: a believable account, a few runs of the real reaper, and what became of everybody.

It is an acceptance test as well: it fails where the outcome differs from the story.

- `fleet.py` is the cast: every machine, what it does, and what must become of it in each run;
- `seed.py` builds the account of them;
- `story.py` is the plot: the runs, and what people do between them;
- `show.py`, `account.py` and `run.py` tell it in a terminal;
- `verdict.py` compares what happened with the story.
"""
