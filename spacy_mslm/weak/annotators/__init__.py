"""Annotators, which find concepts in notes. They are registered as `misc` functions."""
