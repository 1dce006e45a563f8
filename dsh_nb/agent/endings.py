"""How an answer that stopped is taken: the one table from finish reason to what the turn does.

Reads: messages, session.events. Feeds: agent.loop, agent.loop_agent.
"""

from __future__ import annotations

from collections.abc import Callable

from dsh_nb.messages import FinishReason
from dsh_nb.session.events import TurnReason

__all__ = ["MAX_CUT_STEPS", "MAX_PAUSES", "Endings", "caught", "exit_prevented"]

MAX_PAUSES = 8
"""How often in one turn a paused answer is resumed."""

MAX_CUT_STEPS = 3
"""How many answers in a row may be cut at the output limit while they ask for tools."""

_CUT = (
    "This call was not run: the answer that asked for it was cut at the output limit, so its "
    "arguments may be incomplete. Send it again in smaller pieces."
)
_NOT_RUN = "This call was not run: the answer that asked for it did not end properly ({kind})."


class Endings:
    """Decides for one turn; it counts the answers that were cut and those that paused.

    ==================  ===================  =============================================
    finish reason       its tool calls       the turn
    ==================  ===================  =============================================
    stop, tool-calls    run                  goes on when there were calls
    pause-turn          run                  goes on, at most `MAX_PAUSES` times
    max-tokens          not run, told why    goes on when there were calls, at most
                                             `MAX_CUT_STEPS` in a row; else ends in error
    refusal, any other  not run, told why    ends in error
    ==================  ===================  =============================================
    """

    def __init__(self) -> None:
        self._cut_steps = 0
        self._pauses = 0

    @staticmethod
    def why_not_run(reason: FinishReason) -> str | None:
        """What the model is told instead of running its calls; None when they run."""
        if reason.kind in ("stop", "tool-calls", "pause-turn"):
            return None
        return _CUT if reason.kind == "max-tokens" else _NOT_RUN.format(kind=reason.kind)

    def unfinished(self, reason: FinishReason, *, called: bool) -> TurnReason | None:
        """The end of a turn whose answer did not end properly; None where it may go on."""
        if reason.kind in ("stop", "tool-calls"):
            self._cut_steps = 0
            return None
        if reason.kind == "pause-turn":
            return self._paused()
        if reason.kind == "max-tokens":
            return self._cut(reason, called=called)
        code = "REFUSAL" if reason.kind == "refusal" else reason.kind.upper()
        text = reason.message or f"the model stopped for the reason {reason.kind!r}"
        if reason.code:
            text = f"{text} (category {reason.code})"
        return TurnReason("error", message=text, code=code)

    def _paused(self) -> TurnReason | None:
        self._pauses += 1
        if self._pauses <= MAX_PAUSES:
            return None
        text = f"the model paused {self._pauses} times in one turn; send a message to go on"
        return TurnReason("error", message=text, code="PAUSED")

    def _cut(self, reason: FinishReason, *, called: bool) -> TurnReason | None:
        self._cut_steps += 1
        if called and self._cut_steps < MAX_CUT_STEPS:
            return None  # the model was told, and may send the call in smaller pieces
        text = reason.message or "the answer reached the output limit of the request"
        if called:
            text = f"{text}, {self._cut_steps} times in a row in the middle of a tool call"
        return TurnReason(
            "error", message=f"{text}; raise max_tokens, or ask for less", code="MAX_TOKENS"
        )


def caught(call: Callable[[], object]) -> Exception | None:
    """What `call` raised; on the way out a failure is told and stops nothing.

    An exit or interrupt out of a listener would end the kernel with the task it passes through.
    """
    try:
        call()
    except Exception as error:
        return error
    except (SystemExit, KeyboardInterrupt) as error:
        return exit_prevented(error)
    return None


def exit_prevented(error: BaseException) -> RuntimeError:
    """An error to take the place of an exit or interrupt that must not leave its task."""
    prevented = RuntimeError(f"{type(error).__name__} was raised in a turn; that was prevented")
    prevented.__cause__ = error
    return prevented
