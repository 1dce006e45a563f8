"""The notebook surface: the only room that knows Jupyter.

Reads: every other room.
"""
