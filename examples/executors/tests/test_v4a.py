"""Tests of V4A diffs: placement by context and anchors, and helpful error messages."""

import pytest
from runward_executors.v4a import DiffError, created, updated

TWICE = (
    "class A:\n    def f(self):\n        return 1\nclass B:\n    def f(self):\n        return 1\n"
)
SECOND = TWICE[:-2] + "2\n"


def test_a_new_file_is_its_lines() -> None:
    assert created("+one\n+\n+two\n") == "one\n\ntwo\n"
    assert created("+one\r\n+two\r\n*** End Patch") == "one\ntwo\n"


@pytest.mark.parametrize(
    ("text", "diff", "result"),
    [
        ("a\nb\nc\n", "@@\n a\n-b\n+B\n c\n", "a\nB\nc\n"),
        ("a\nb\nc\n", " a\n-b\n+B\n c", "a\nB\nc\n"),
        ("a\nb\nc\nd\n", "@@\n-a\n+A\n@@\n-d\n+D\n", "A\nb\nc\nD\n"),
        ("x\na\nx\n", "@@ a\n-x\n+y\n", "x\na\ny\n"),
        (TWICE, "@@ class B:\n@@     def f(self):\n-        return 1\n+        return 2\n", SECOND),
        ("a\n", "@@\n a\n+b\n", "a\nb\n"),
        ("a\nb\n", "@@ a\n+inserted\n", "a\ninserted\nb\n"),
        ("a\n", "+first\n", "first\na\n"),
        ("", "+first\n", "first\n"),
        ("x\nend\nx\nend\n", "@@\n x\n-end\n+END\n*** End of File\n", "x\nend\nx\nEND\n"),
        ("a\n", "@@\n+last\n*** End of File", "a\nlast\n"),
        ("a\n\nb\n", "@@\n a\n\n-b\n+B\n", "a\n\nB\n"),
        ("a\nb\n", "@@\n-b\n+B\n \n", "a\nB\n"),
        ("a\nb\na\nb\n", "@@\n-b\n+B\n \n", "a\nb\na\nB\n"),
    ],
)
def test_sections_are_found_by_context_and_anchors(text: str, diff: str, result: str) -> None:
    assert updated(text, diff) == result


def test_spaces_that_the_model_got_wrong_are_forgiven_and_the_files_own_stay() -> None:
    assert updated("  a  \n\tb\n  c\n", "@@\n a\n-b\n+B\n c\n") == "  a  \nB\n  c\n"
    assert updated("    def f():\n        x\n", "@@ def f():\n-x\n+        y\n") == (
        "    def f():\n        y\n"
    )


def test_the_exact_place_comes_before_a_similar_one() -> None:
    assert updated("  x\nx\n", "@@\n-x\n+y\n") == "  x\ny\n"


def test_line_endings_stay() -> None:
    assert updated("a\r\nb\r\nc\r\n", "@@\n a\n-b\n+B\n") == "a\r\nB\r\nc\r\n"
    assert updated("a\r\nb\nc\r\n", "@@\r\n b\r\n-c\r\n+C\r\n") == "a\r\nb\nC\r\n"
    assert updated("a\nb", "@@\n-a\n+A\n") == "A\nb"
    assert updated("a\nb", "@@\n b\n+c\n") == "a\nb\nc\n"
    assert updated("a\x0cb\u2028c\nd\n", "@@\n-d\n+D\n") == "a\x0cb\u2028c\nD\n"


@pytest.mark.parametrize(
    ("text", "diff", "words"),
    [
        ("a\n", "", "empty"),
        ("a\n", "@@\n-b\n+c\n", "not in the file from line 1 on:\nb"),
        ("a\nb\n", "@@\n-b\n+B\n@@\n-a\n+A\n", "not in the file from line 3 on:\na"),
        ("a\n", "@@\n a\n", "changes nothing"),
        ("a\n", "@@ a\n", "changes nothing"),
        ("a\n", "@@\n", "changes nothing"),
        ("a\n", "@@\n*a\n", "Line 2 of the diff"),
        ("a\n", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "not in the file"),
        ("a\n", "@@ nowhere\n+b\n", "no line 'nowhere'"),
        ("a\nb\na\n", "@@ nowhere\n-a\n+A\n", "fits in 2 places"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(text: str, diff: str, words: str) -> None:
    with pytest.raises(DiffError) as caught:
        updated(text, diff)
    assert words in str(caught.value)


def test_a_new_file_has_no_other_lines() -> None:
    with pytest.raises(DiffError, match="Line 2 of the diff must begin with"):
        created("+a\n b\n")
