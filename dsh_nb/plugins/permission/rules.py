"""The rules of what may run: globs on the tool's name and on its arguments, or exact arguments.

Reads: messages. Feeds: plugins.permission.
"""

from __future__ import annotations

import glob
import hashlib
import json
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import BaseModel, ConfigDict

from dsh_nb.messages import JsonObject

__all__ = ["Decision", "Rule", "Rules", "Verdict", "digest_of"]

Decision = Literal["allow", "ask", "deny"]

_STRICTEST_FIRST = ("deny", "ask", "allow")


def digest_of(tool: str, arguments: object) -> str:
    """What a decision binds to: the tool and exactly these arguments, in whatever order."""
    text = json.dumps([tool, arguments], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class Rule(BaseModel):
    """What is decided about some calls.

    A glob matches a whole value, newlines included, so ``git status*`` matches
    ``git status && rm x`` too, and ``/tmp/*`` matches ``/tmp/../etc/passwd``: to allow a command,
    write it in full, or take `exact`.

    Attributes:
        tool: Glob on the tool's name.
        arguments: Globs by the name of an argument: text as it is, other values as JSON. An
            argument that the call does not have matches no glob; one not named here is free.
        decision: What is decided.
        digest: When given, the only tool and arguments that match (`digest_of`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    tool: str = "*"
    arguments: dict[str, str] = {}
    decision: Decision
    digest: str | None = None

    @classmethod
    def exact(cls, tool: str, arguments: JsonObject, decision: Decision = "allow") -> Rule:
        """A rule for calls of `tool` with exactly these arguments."""
        return cls(tool=glob.escape(tool), decision=decision, digest=digest_of(tool, arguments))

    @classmethod
    def whole(cls, tool: str, decision: Decision = "allow") -> Rule:
        """A rule for calls of `tool`, whatever the arguments; the name is no glob."""
        return cls(tool=glob.escape(tool), decision=decision)

    def matches(self, tool: str, arguments: object) -> bool:
        """Whether the rule is about that call; arguments that are no object match no glob."""
        if not fnmatchcase(tool, self.tool):
            return False
        if self.digest is not None and self.digest != digest_of(tool, arguments):
            return False
        given = arguments if isinstance(arguments, dict) else {}
        return all(
            name in given and fnmatchcase(_text(given[name]), pattern)
            for name, pattern in self.arguments.items()
        )

    def __str__(self) -> str:
        """What the rule covers, for people who are about to agree to it."""
        said = f"{self.decision} {self.tool}"
        if self.digest is not None:
            return f"{said} with exactly the arguments of digest {self.digest[:12]}"
        if not self.arguments:
            return f"{said} with any arguments"
        globs = ", ".join(f"{name}={pattern!r}" for name, pattern in self.arguments.items())
        return f"{said} where {globs}"


class Verdict(BaseModel):
    """What the rules say of a call, and which of them; no rule when it is the default."""

    model_config = ConfigDict(frozen=True)
    decision: Decision
    rule: Rule | None = None


class Rules:
    """All rules of a context.

    Of the configured ones the first match wins. Of those added later, and those remembered in the
    session of the call, the strictest match wins, and it comes before the configured ones; only a
    call that a configured rule denies stays denied.

    Attributes:
        configured: In order of precedence.
        default: For calls that no rule is about.
        added: What was added since.
    """

    def __init__(self, configured: Iterable[Rule], default: Decision) -> None:
        self.configured = tuple(configured)
        self.default: Decision = default
        self.added: tuple[Rule, ...] = ()

    def add(self, rule: Rule) -> None:
        """Take `rule`; one that is there already changes nothing."""
        if rule not in self.added:
            self.added = (*self.added, rule)

    def verdict(
        self,
        tool: str,
        arguments: object,
        asks: Callable[[], bool] = lambda: False,
        remembered: tuple[Rule, ...] = (),
    ) -> Verdict:
        """What is decided about a call.

        Args:
            tool: Its tool.
            arguments: Its arguments.
            asks: Whether the tool itself wants a person to be asked; only consulted when no rule
                is about the call.
            remembered: What was added for the session of the call alone.
        """
        configured = next((one for one in self.configured if one.matches(tool, arguments)), None)
        if configured is not None and configured.decision == "deny":
            return Verdict(decision="deny", rule=configured)
        added = [one for one in (*self.added, *remembered) if one.matches(tool, arguments)]
        rule = min(added, key=lambda one: _STRICTEST_FIRST.index(one.decision), default=configured)
        if rule is not None:
            return Verdict(decision=rule.decision, rule=rule)
        return Verdict(decision="ask" if asks() else self.default)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
