"""The process of one training: `python -m spacy_mslm.tasks.sweeping.process [--bf16] spacy ...`

It runs a module as `python -m` does, and ends when the process that started it ends: a sweep that
was killed leaves no training behind, which would go on in the folder of its successor.

With --bf16, the module runs in bfloat16 on a CPU, two to three times as fast on processors with
AVX-512 BF16 or AMX. The weights stay in 32-bit floats. It is not a setting, because
torch's kernels for AMX have ended the process on some machines.
"""

import os
import runpy
import sys
import threading


def end_with_parent() -> None:
    """End this process when its standard input ends, whose other end is held by the parent."""

    def watch() -> None:
        os.read(0, 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Run the module that the arguments name."""
    end_with_parent()
    bf16 = sys.argv[1] == "--bf16"
    sys.argv = sys.argv[1 + bf16 :]
    if not bf16:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        return
    import torch

    # Without its cache: it would keep the weights of the first update until the end.
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
