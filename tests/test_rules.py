from __future__ import annotations

import pytest

from tests.rules import RULES, cover

pytest_plugins = ["pytester"]

ALONE = ("-p", "tests.rules", "-p", "no:asyncio")


def test_cover_sorts_the_marks_by_rule() -> None:
    coverage = cover([("L7", "test_a"), ("L7", "test_b"), ("L7", "test_a"), ("X9", "test_b")])

    assert coverage.shown["L7"] == ["test_a", "test_b"]
    assert coverage.missing == [rule for rule in RULES if rule != "L7"]
    assert coverage.unknown == [("X9", "test_b")]
    assert not coverage.complete


def test_cover_is_complete_when_each_rule_has_a_test() -> None:
    assert cover((rule, "test_all") for rule in RULES).complete


def test_rules_option_lists_the_tests_and_runs_none(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_rules=f"""
        import pytest

        @pytest.mark.rule(*{list(RULES)})
        @pytest.mark.parametrize("n", [1, 2])
        def test_all(n):
            raise AssertionError("not to be run")
        """
    )

    result = pytester.runpytest(*ALONE, "--rules")

    assert result.ret == pytest.ExitCode.OK
    tests = [line.strip() for line in result.outlines if line.startswith("      ")]
    assert tests == ["test_rules.py::test_all"] * len(RULES)


@pytest.mark.parametrize(
    ("mark", "complaint"),
    [
        (list(RULES)[1:], "rule C1 has no test; mark one with @pytest.mark.rule('C1')"),
        ([*RULES, "X9"], "*::test_all names the rule 'X9', which does not exist; *"),
    ],
)
def test_rules_option_fails_on_what_is_missing_or_unknown(
    pytester: pytest.Pytester, mark: list[str], complaint: str
) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.rule(*{mark})
        def test_all():
            pass
        """
    )

    result = pytester.runpytest(*ALONE, "--rules")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([complaint])
