"""Arms of the search for what masks add on clean text: prototypes that share teachers and labels.

    python -m benchmarks.arms.trial '{"name": "vanilla", "set": "bc2gm", "kind": "vanilla"}'
    python -m benchmarks.arms.trial '{"name": "A-spans", "set": "bc2gm", "unit": "spans", "ft": 0}'

Each runs one trial on a dev set. The teacher is the vanilla trial of the same set and seed, which
has to run first. The settings are those of `trial.Settings`. Teachers, their soft tags and students
are kept under `training/arms`, the results are rows of `results/accuracy/arms.jsonl`. Training
differs from `python -m benchmarks accuracy`: it runs in bfloat16 and without `spacy train`.
"""
