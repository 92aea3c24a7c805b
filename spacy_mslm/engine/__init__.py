"""Long computations over many documents: in chunks, in several processes or on a Ray cluster, and
continued after an interruption. `weak label` and `annotate` use it, and `sweep`, for which a
training is a document.

`chunks` divides documents, `shards` is the folder that finished chunks are written to, `place` says
where chunks are processed, `schedule` gives them to workers: `local` or `ray_actors`.
"""
