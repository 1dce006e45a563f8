"""Every exception that dsh_nb raises, in one tree.

DshError
├── ConfigError             a plugin's config does not fit its schema
├── ContextError            the plugin core was used wrongly
│   ├── ServiceMissingError     nobody provides the service
│   ├── ServiceTakenError       the service has a provider already
│   ├── WrongThreadError        called off the context's thread
│   ├── ProceedTwiceError       a listener called one `proceed` twice
│   └── DisposedError           the context, fiber or agent is gone
├── SessionError            the session log was used wrongly
│   ├── SessionTakenError       a live session has that id
│   ├── LogError                a log breaks an invariant
│   └── DriftError              a rerun differs from its recording
├── LlmError                a model call failed; has a ``code``
│   ├── NoAdapterError          ``NO_ADAPTER``
│   ├── DuplicateAdapterError   ``DUPLICATE_ADAPTER``
│   ├── MissingKeyError         ``MISSING_KEY``
│   └── RecordingError          ``RECORDING``: a recorded answer does not fit the request
├── ToolError               a tool was defined or registered wrongly
│   ├── ToolDefinitionError     the function cannot become a tool
│   └── ToolTakenError          a tool of that name is registered
└── AgentError              an agent was used wrongly
└── AgentTakenError         an agent of that id is registered
"""

from __future__ import annotations

__all__ = [
    "AgentError",
    "AgentTakenError",
    "ConfigError",
    "ContextError",
    "DisposedError",
    "DriftError",
    "DshError",
    "DuplicateAdapterError",
    "LlmError",
    "LogError",
    "MissingKeyError",
    "NoAdapterError",
    "ProceedTwiceError",
    "RecordingError",
    "ServiceMissingError",
    "ServiceTakenError",
    "SessionError",
    "SessionTakenError",
    "ToolDefinitionError",
    "ToolError",
    "ToolTakenError",
    "WrongThreadError",
]


class DshError(Exception):
    """The root: ``except DshError`` catches whatever this package raises on purpose."""


class ConfigError(DshError):
    """A plugin's config does not fit its schema.

    Attributes:
        plugin: Name of the plugin.
        path: Dotted path of the first field at fault; ``""`` for the config as a whole.
    """

    def __init__(self, message: str, *, plugin: str, path: str) -> None:
        super().__init__(message)
        self.plugin = plugin
        self.path = path


class ContextError(DshError):
    """The plugin core was used wrongly."""


class ServiceMissingError(ContextError, AttributeError):
    """Nobody provides the service; an `AttributeError` too, so that ``hasattr`` works."""


class ServiceTakenError(ContextError):
    """The context has a provider of that service already."""


class WrongThreadError(ContextError):
    """A method that belongs to the context's thread was called from another one."""


class ProceedTwiceError(ContextError):
    """A waterfall listener called its `proceed` twice."""


class DisposedError(ContextError):
    """The context, fiber or agent was disposed."""


class SessionError(DshError):
    """The session log was used wrongly."""


class SessionTakenError(SessionError):
    """A live session has that id."""


class LogError(SessionError):
    """A log breaks an invariant.

    Attributes:
        seq: Position of the event at fault; -1 when the log as a whole is at fault.
    """

    def __init__(self, message: str, *, seq: int = -1) -> None:
        super().__init__(message)
        self.seq = seq


class DriftError(SessionError):
    """A rerun differs from its recording.

    Attributes:
        turn: The turn in which it does.
        step: The step; 0 when it is in none.
        what: What differs, in words.
        expected: What was recorded; ``""`` when nothing was.
        got: What came this time; ``""`` when nothing did.
    """

    def __init__(
        self, turn: int, step: int, what: str, expected: str, got: str, changes: str = ""
    ) -> None:
        place = f"turn {turn}, step {step}" if step else f"turn {turn}"
        lines = [f"{place}: {what} differs from the recording", changes]
        super().__init__("\n".join(filter(None, lines)))
        self.turn = turn
        self.step = step
        self.what = what
        self.expected = expected
        self.got = got


class LlmError(DshError):
    """A model call failed.

    Attributes:
        code: What failed, for programs: the provider's error type or one of ours.
        status: HTTP status of the answer; ``None`` when there was none.
        retry_after_seconds: How long the provider asked to wait; ``None`` when it did not say.
        final: True when another attempt is of no use whatever the code says, as in a replay.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int | None = None,
        retry_after_seconds: float | None = None,
        final: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.final = final


class NoAdapterError(LlmError):
    """No adapter serves the model."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="NO_ADAPTER")


class DuplicateAdapterError(LlmError):
    """A model name is registered already."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="DUPLICATE_ADAPTER")


class MissingKeyError(LlmError):
    """The provider needs a key and none was given."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="MISSING_KEY")


class RecordingError(LlmError):
    """A recorded answer does not fit the request that was made."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="RECORDING")


class ToolError(DshError):
    """A tool was defined or registered wrongly."""


class ToolDefinitionError(ToolError):
    """The function cannot become a tool; the text names the parameter at fault."""


class ToolTakenError(ToolError):
    """A tool of that name is registered already."""


class AgentError(DshError):
    """An agent was used wrongly."""


class AgentTakenError(AgentError):
    """An agent of that id is registered already."""
