"""Models: one service, one protocol, and the adapters.

Reads: core, messages, session. Feeds: agent, plugins, notebook.
"""
