"""The tables and figures of the paper, with our figures beside the paper's.

    RESULTS/*.jsonl ── rows ──┐
                              ├── tables ──> Table ──> page, CSV
    data/paper ── published ──┘                └─ figures ──> PNG

`tasks.rows` reads the trials of `spacy mslm sweep`, `published` the paper's figures, `specs` the
trials that fill a table. `tables` has a function for each table, `contents` their titles and notes,
`paper` writes all of them.
"""
