"""Readers of annotated files, one module per format. They use the standard library only.

Formats with tokenised text (`iob`, `ebm_nlp`) are read into `Sentence`s, the others (`brat`,
`pubtator`, `bioc`, `jsonl`) into `Document`s with character offsets; see `records`.
"""
