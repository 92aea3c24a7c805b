"""Training of the network.

`survey` reads the training set once before training, `losses` computes the joint loss, `step` runs
one update, `logger` prints the table. `adaptation` and `pretraining` are stages before training.
"""
