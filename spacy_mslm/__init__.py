"""Mask-Specific Language Modeling (MSLM, NAACL 2024) as a spaCy component package.

Importing this package is cheap: spaCy finds everything through entry points (see setup.py), so
torch and transformers are loaded only when a pipeline that uses them is.
"""

from importlib.metadata import version

__version__ = version("spacy-mslm")
