"""The live view: a turn as it happens, in a widget that is gone when the turn has ended.

Reads: notebook. Feeds: notebook.agent, notebook.turn.
"""
