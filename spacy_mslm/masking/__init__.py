"""Which pieces are masked in training, and how much each masked piece weighs.

In order: `strategies` draws masks, `views` builds the rows that are trained on, `weights` weighs
the kinds of masks. `collocations` and `pmi` make the vocabulary of PMI masking.
"""
