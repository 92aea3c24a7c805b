"""The `mslm` pipe of spaCy.

`factory` registers it with its default settings, `component` is the pipe, `saving` writes and
checks its files, `find` looks it up in a pipeline.
"""
