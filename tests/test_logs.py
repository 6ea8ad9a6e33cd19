"""What others send can be seen in a log: no line is forged, and no terminal obeys."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Iterator

import pytest

from flintmq.errors import BrokerRefused, Unreachable
from flintmq.logs import SHOWN_MAX, logger
from flintmq.printable import printable, printable_lines

NASTY = "a\nb\r\x1b[2J\x00\x07\x7f\x9b31m\u202e\u2028\u200e\ud800"


class Kept(logging.Handler):
    """What a program that logs in its own way gets to see."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    parent = logging.getLogger("flintmq")
    parent.addHandler(handler)
    yield handler
    parent.removeHandler(handler)


def hidden(text: str) -> list[str]:
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


log = logger("flintmq.test")


def test_every_control_character_is_written_out() -> None:
    for number in range(0x11_0000):
        assert not hidden(printable(chr(number))), hex(number)


def test_what_can_be_seen_stays() -> None:
    for text in ("", "orders", "订单 消息", "a\u3000b\u00a0c", "é😀", "\\n"):
        assert printable(text) == text
    assert printable("a\nb\x1b\u202e") == r"a\nb\x1b\u202e"
    assert printable_lines("a\n\tb\x1b") == "a\n\tb\\x1b"


@pytest.mark.parametrize("form", ["%s", "%r", "%-30s", "%.500s"])
def test_a_value_is_shown_whatever_its_format(kept: Kept, form: str) -> None:
    for value in (
        NASTY,
        [NASTY],
        (NASTY,),
        {NASTY: 1},
        Unreachable(NASTY, NASTY),
        ValueError(NASTY),
    ):
        log.warning(f"got {form} from %d", value, 1)  # noqa: G004

    assert len(kept.lines) == 6
    assert [line for line in kept.lines if hidden(line)] == []
    assert all(line.startswith("got ") and line.endswith(" from 1") for line in kept.lines)


def test_a_message_without_values_and_named_values_are_shown_too(kept: Kept) -> None:
    log.warning(NASTY)
    log.warning("%(topic)s", {"topic": NASTY})

    assert [line for line in kept.lines if hidden(line)] == []


def test_numbers_stay_numbers(kept: Kept) -> None:
    log.warning("%d %5.1f %s %s", 7, 1.25, None, True)

    assert kept.lines == ["7   1.2 None True"]


def test_no_line_of_a_traceback_can_be_taken_for_a_record(kept: Kept) -> None:
    try:
        raise ValueError("x\n2026-01-01 INFO flintmq.broker forged\x1b[2J")
    except ValueError:
        log.exception("it failed")

    (text,) = kept.lines
    first, *rest = text.split("\n")
    assert first == "it failed"
    assert all(line.startswith("  ") and not hidden(line) for line in rest)


def test_of_a_value_of_any_size_only_the_beginning_is_shown(kept: Kept) -> None:
    log.warning("%s %r", "x" * 1_000_000, "y" * 1_000_000)

    assert "(1000000 characters)" in kept.lines[0]
    assert len(kept.lines[0]) < 3 * SHOWN_MAX


def test_the_value_itself_is_left_to_who_looks_at_it(caplog: pytest.LogCaptureFixture) -> None:
    log.warning("%s", NASTY)

    assert caplog.records[0].args == (NASTY,)


def test_the_sentence_of_a_refusal_can_be_seen() -> None:
    error = BrokerRefused(1, NASTY, NASTY)

    assert error.remark == NASTY
    assert hidden(str(error)) == hidden(str(Unreachable(NASTY, NASTY))) == []
