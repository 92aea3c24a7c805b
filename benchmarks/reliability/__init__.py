"""`python -m benchmarks reliability`: what hostile text, kills, damage and load do, in one table.

parts        what all experiments share: rows of the table, a tiny pipeline, forked processes
experiment   cases in portions, counted in a file, so that a large size can be run in parts
hostile      texts that break tokenizers, and what must hold for the answer to any text
kills        kill -9 and Ctrl-C at random moments of all commands that write
damage       bit flips and truncations over all files
disk         no space left on the disk, a read-only folder
load         threads, worker processes, killed workers, memory over many documents
command      the command and the list of the experiments
"""

from .command import reliability

__all__ = ["reliability"]
