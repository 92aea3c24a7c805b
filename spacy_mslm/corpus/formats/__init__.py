"""Annotated files in the formats of others, a module each: what they hold, and nothing of spaCy.

Formats whose text is split into tokens already (`iob`, `ebm_nlp`) give `Sentence`s, the others
(`brat`, `pubtator`, `bioc`, `jsonl`) give `Document`s with character offsets; see `records`.
"""
