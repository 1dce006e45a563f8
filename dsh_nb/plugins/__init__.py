"""Plugins: what is not the loop, each on the live events that the loop offers.

Feeds: notebook.
"""
