"""Tools: functions that a model may call, behind one seam.

Reads: core, messages. Feeds: agent, plugins, notebook.
"""
