"""The machine that something was measured on."""

import os
import platform
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("spacy", "spacy-transformers", "torch", "transformers", "onnxruntime")


def describe_machine() -> dict[str, str | int]:
    """Return processor, number of cores, versions and date."""
    cpu = _cpu_info()
    found: dict[str, str | int] = {
        "cpu": cpu.get("model name") or platform.processor(),
        "cores": os.cpu_count() or 0,
        "python": platform.python_version(),
    }
    # Virtual machines give the same name to processors of several generations.
    if "cpu family" in cpu:
        found["cpu_family_model"] = f"{cpu['cpu family']}/{cpu.get('model', '')}"
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {**found, "date": date.today().isoformat()}


def _cpu_info() -> dict[str, str]:
    """Read the facts about the first processor (Linux only)."""
    path = Path("/proc/cpuinfo")
    text = path.read_text().partition("\n\n")[0] if path.exists() else ""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
