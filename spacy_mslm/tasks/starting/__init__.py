"""A project for the user's own corpus: converted corpus, config and `project.yml`.

recipe   the config to start from, and the length of its training
project  project.yml
start    looks at the corpus, and writes the folder
"""
