"""What tests of agents need, and what dsh_nb's own tests use: a server, logs, a clock, a harness.

Reads: session, llm, agent. Feeds: tests.
"""

from __future__ import annotations

from dsh_nb.llm.scripted import ScriptedModel
from dsh_nb.testing.clock import FakeClock
from dsh_nb.testing.harness import TestAgent, running_agent
from dsh_nb.testing.logs import LogBuilder
from dsh_nb.testing.replies import Reply, reply
from dsh_nb.testing.server import MessagesServer, RecordedRequest
from dsh_nb.testing.validator import validate_request

__all__ = [
    "FakeClock",
    "LogBuilder",
    "MessagesServer",
    "RecordedRequest",
    "Reply",
    "ScriptedModel",
    "TestAgent",
    "reply",
    "running_agent",
    "validate_request",
]
