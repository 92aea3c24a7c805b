"""Weak supervision of clinical notes, in the order of the data:

notes -> documents -> annotators -> clusters -> aggregation -> context -> corpus
"""
