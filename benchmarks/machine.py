"""What the figures were measured on."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("spacy", "spacy-transformers", "torch", "transformers", "onnxruntime")


def describe_machine() -> dict[str, str | int]:
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count() or 0,
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
