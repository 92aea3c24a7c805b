"""The network and its training, without spaCy: encoder, masked-LM head and the two entity heads.

In order: `checkpoints` (loading), `new_encoder`, `mlm_heads`, `network`, `optimizer`, `schedules`,
`weights` (the files of a network), `shim` (torch in thinc), `architecture` (the registered thinc
model). `fast` makes prediction faster.
"""
