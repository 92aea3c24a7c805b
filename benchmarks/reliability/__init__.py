"""`python -m benchmarks reliability`: what hostile text, kills, damage and load do, in one table.

parts      what all experiments share: the table, a tiny pipeline, forked processes
hostile    texts that break tokenizers, and what must hold for the answer to any text
kills      kill -9 at random moments of saving, calibration, conversion, labels, pretraining
damage     bit flips and truncations over all files; no space left on the disk
load       threads, worker processes, memory over many documents
"""

from .command import reliability

__all__ = ["reliability"]
