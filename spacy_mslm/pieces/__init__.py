"""Documents -> batches for the encoder.

In order: `wordpieces` splits tokens, `windows` covers long documents, `collate` pads rows to
batches. `packing` joins sentences to blocks for pretraining.
"""
