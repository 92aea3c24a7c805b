"""Mask-Specific Language Modeling (MSLM, NAACL 2024) as a spaCy component package.

spaCy finds all registered functions and the commands through entry points (setup.py), so nothing
has to be imported to use the package. The packages, in the order of the data; each imports only
from those above it:

    types       the data classes that flow between the steps
    errors      error messages that several modules raise
    util        files, lines, progress bars, digests, stage folders
    text        tokenizer, sentences, plain text files, terminologies
    corpus      annotated corpora: formats, conversion, splits, corpus readers
    pieces      documents -> wordpieces -> windows -> padded batches
    masking     which pieces are masked, and how much each masked piece weighs
    model       the encoder with its heads, optimizer, saving and loading of weights
    inference   wordpieces -> entities with confidences
    scoring     scores, the paper's masked protocol, perplexity, calibration
    training    losses, the update step, adaptation and pretraining of the encoder
    pipeline    the `mslm` pipe and its factory, saving of pipelines
    weak        clinical notes -> concepts -> labelled corpus
    tasks       what the commands do, as typed functions
    cli         the commands: they parse arguments, call a task and print
"""

from importlib.metadata import version

__version__ = version("spacy-mslm")
