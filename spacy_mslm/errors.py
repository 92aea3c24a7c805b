"""Every message of the package: what is wrong, where, and what to do. No message ever holds text
of a document: documents are named by id or stream index, places by character or token offsets.

Codes: M0xx model and training, M1xx data files and commands, M2xx tokenizer and saving.
"""


class Errors:
    # ---- model and training ----
    # ---- data files and commands ----
    # ---- tokenizer and saving ----
    pass


class Warnings:
    # ---- model and training ----
    # ---- data files and commands ----
    # ---- tokenizer and saving ----
    pass
