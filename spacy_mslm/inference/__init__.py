"""Wordpieces -> entities with confidences.

`predict` runs documents through the network, `decoding` finds the best tag sequence, `calibration`
turns scores into probabilities.
"""
