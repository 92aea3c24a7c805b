"""Scores of predictions on gold documents.

`scorer` is the registered scorer, `masked_protocol` the protocol of the paper's authors,
`perplexity` that of the masked-LM head, `calibrate` fits the temperature of a pipe.
"""
