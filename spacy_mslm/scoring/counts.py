"""Counts of each document as one line of text, from which intervals can be computed later."""

import base64
import zlib

import numpy as np

# The counts that are stored for each document, in this order.
COUNTS = ("gold", "predicted", "exact", "gold_unseen", "exact_unseen")
_WIDE = "u2:"  # two bytes for each count: documents with more than 255 mentions


def pack(counts: np.ndarray) -> str:
    """Encode (documents, COUNTS) counts as text."""
    wide = counts.size > 0 and counts.max() > 255
    data = counts.astype("<u2" if wide else np.uint8).tobytes()
    return (_WIDE if wide else "") + base64.b64encode(zlib.compress(data, 9)).decode("ascii")


def unpack(text: str) -> np.ndarray:
    """Decode the (documents, COUNTS) counts that `pack` encoded."""
    data = zlib.decompress(base64.b64decode(text.removeprefix(_WIDE)))
    kind = "<u2" if text.startswith(_WIDE) else np.uint8
    return np.frombuffer(data, dtype=kind).reshape(-1, len(COUNTS))
