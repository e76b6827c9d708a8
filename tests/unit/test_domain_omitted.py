"""Large arguments that an answer leaves out."""

from runward.domain.json import JsonObject, compact
from runward.domain.run.large_arguments import MAX_NAMED, LargeArgument, omit_large


def test_nothing_is_left_out_without_a_limit() -> None:
    arguments: JsonObject = {"to": "ada", "body": "x" * 10_000_000}
    assert omit_large(arguments, None) == (arguments, [])


def test_small_arguments_stay_beside_a_large_one() -> None:
    arguments: JsonObject = {"to": "ada", "body": "x" * 1_000, "cc": ["ben"]}
    kept, omitted = omit_large(arguments, 100)
    assert kept == {"to": "ada", "cc": ["ben"]}
    assert omitted == [LargeArgument("body", 1_002)]


def test_many_small_arguments_do_not_exceed_the_limit_together() -> None:
    arguments: JsonObject = {f"n{at}": at for at in range(10_000)}
    kept, omitted = omit_large(arguments, 500)
    assert len(compact(kept)) < 1_000
    assert len(omitted) == MAX_NAMED + 1
    assert omitted[-1].name is None


def test_a_name_may_be_too_large_as_well() -> None:
    kept, omitted = omit_large({"n" * 1_000_000: 1}, 500)
    assert (kept, omitted) == ({}, [LargeArgument(None, 1)])
