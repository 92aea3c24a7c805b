"""Readers of annotated files, one module per format. They use the standard library only, except for
Parquet and Arrow files.

Formats with tokens (`iob`, `ebm_nlp`, `hugging_face`, `gliner`) are read into `Sentence`s, the
others (`brat`, `pubtator`, `bioc`, `bioc_json`, `jsonl`, `label_studio`) into `Document`s with
character offsets; see `records`.
"""
