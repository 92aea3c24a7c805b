"""Mask-Specific Language Modeling (MSLM, NAACL 2024) as a spaCy component package.

Nothing needs to be imported to use it: spaCy finds everything through entry points (setup.py).
"""

from importlib.metadata import version

__version__ = version("spacy-mslm")
