"""Agents: the protocol, the registry, the prompt, the inbox and the loop.

Feeds: plugins, notebook.
"""
