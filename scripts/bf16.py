"""Run a module in bfloat16 on a CPU: python scripts/bf16.py spacy train configs/mini.cfg ...

This is two to three times as fast on processors with AVX-512 BF16 or AMX, and the weights stay in
32-bit floats. It is not a setting of the package, because torch's kernels for AMX have ended the
process on some machines.
"""

import os
import runpy
import sys

import torch

if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    sys.path[0] = os.getcwd()  # as `python -m` does
    # Without its cache: it would keep the weights of the first update until the end.
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
