"""Choices that tasks and the options of their commands share. This module imports nothing heavy."""

from enum import Enum

from ..engine.place import Engine

__all__ = ["Engine", "Format", "Mode", "Protocol", "Target"]


class Protocol(str, Enum):
    """The text that a pipeline is evaluated on.

    clean: The text as it is.
    masked: The paper's protocol: gold mentions are masked before tagging.
    """

    clean = "clean"
    masked = "masked"


class Mode(str, Enum):
    """The weights of an optimized encoder.

    onnx: 32-bit floats, for ONNX Runtime.
    onnx-int8: 8-bit integers, for ONNX Runtime.
    half: 16-bit floats in the files and 32-bit floats in memory, for torch. The files have half the
        size, the speed is the same, and the pipeline can still be trained.
    """

    onnx = "onnx"
    onnx_int8 = "onnx-int8"
    half = "half"


class Format(str, Enum):
    """The format of annotated documents."""

    jsonl = "jsonl"
    parquet = "parquet"
    spacy = "spacy"


class Target(str, Enum):
    """What a pipeline is exported to.

    hf-mlm: The encoder with its masked-LM head, for `AutoModelForMaskedLM`, or as the encoder of
        another pipeline.
    hf-token-classification: A classifier, for `pipeline("token-classification")`.
    onnx: The same classifier with an ONNX graph.
    """

    hf_mlm = "hf-mlm"
    hf_token_classification = "hf-token-classification"
    onnx = "onnx"
