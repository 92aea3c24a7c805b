"""Experiments: trainings of several configs, on several sets, with several seeds.

    SPEC.yml ── spec ──> trials ──> trial (a training, scored) ──> OUTPUT/results.jsonl
                  │         ↑
                search ─────┘ which trials are next, given the results so far

`spec` reads and checks a file of experiments, `search` draws settings, `trial` trains and scores
one of them (in `process`, with `data` and `scores`), `results` is the folder, `sweep` runs all.
"""
