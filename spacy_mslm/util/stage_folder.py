"""The folder that a stage writes once: an adapted or pretrained encoder, or a labelled corpus.

A JSON file in the folder records the settings of the stage. Files that the settings name are
compared by their content, not by their path. A folder with the same settings is used as it is. A
folder with other settings is an error, unless the user wants to start over.
"""

import json
from pathlib import Path
from typing import Any

from .digests import with_digests
from .files import replace_file


class StageFolder:
    """The folder of a stage, and the settings of the stage.

    Args:
        path: The folder.
        record_name: The name of the JSON file that records the settings.
        settings: All settings that change the result of the stage. The record of a finished stage
            has these keys, and may have others (results).
        remedy: The end of error messages, which says what the user can do.
    """

    def __init__(
        self, path: Path, record_name: str, settings: dict[str, Any], remedy: str = ""
    ) -> None:
        self.path = path
        self.record_name = record_name
        self.remedy = remedy
        # A round trip through JSON turns tuples into lists, as in a record that was read.
        self.settings: dict[str, Any] = json.loads(json.dumps(with_digests(settings)))

    def read(self) -> dict[str, Any] | None:
        """Return the record of the folder, or None if the folder does not exist or is empty.

        Raises:
            ValueError: If the folder exists and was not made by this stage.
        """
        try:
            # A run that was killed may leave the temporary file of its record.
            temporary = f".{self.record_name}."
            entries = [e for e in self.path.iterdir() if not e.name.startswith(temporary)]
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            entries = [self.path]
        if not entries:
            return None
        try:
            record = json.loads((self.path / self.record_name).read_text(encoding="utf8"))
        except (OSError, ValueError):
            record = None
        if not isinstance(record, dict):
            raise ValueError(
                f"{self.path} exists, but has no readable {self.record_name}, so it was not made "
                f"by this step. {self.remedy}"
            ) from None
        return record

    def differences(self, record: dict[str, Any]) -> list[str]:
        """Return the dotted names of the settings in which a record differs from this stage."""
        return _differences(self.settings, record, "")

    def check(self, record: dict[str, Any]) -> None:
        """Raise a ValueError if a record has other settings than this stage."""
        names = self.differences(record)
        if names:
            shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            raise ValueError(
                f"{self.path} was made with other settings or other input files: {shown} differ "
                f"from the values in {self.record_name}. {self.remedy}"
            )

    def write(self, record: dict[str, Any], folder: Path | None = None) -> None:
        """Write the record.

        Args:
            record: The settings, and results.
            folder: A temporary folder to write to instead of the stage's own.
        """
        content = json.dumps(record, indent=2) + "\n"
        replace_file((folder or self.path) / self.record_name, content.encode("utf8"))


def _differences(expected: dict[str, Any], found: dict[str, Any], prefix: str) -> list[str]:
    names = []
    for key, value in expected.items():
        name = f"{prefix}{key}"
        other = found.get(key)
        if isinstance(value, dict) and isinstance(other, dict):
            names += _differences(value, other, f"{name}.")
            names += [f"{name}.{extra}" for extra in other.keys() - value.keys()]
        elif key not in found or value != other:
            names.append(name)
    return names
