"""Helpers that know nothing about models or annotation.

`files` (atomic writes), `manifest` (checksums), `lines` (UTF-8 text and JSON lines), `progress`,
`markdown`, `spans` (overlaps), `extensions` (spaCy attributes), `digests` and `stage_folder`
(folders that a stage writes once), `locks` (between processes), `machine`.
"""
