"""Options are found whatever their case, wrong ones say what was meant, secrets are not shown."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest

from flintmq.errors import InvalidSetting
from flintmq.spark.options import option_table
from flintmq.spark.options.connection_options import ACCESS
from flintmq.spark.options.option_table import (
    NotAllowed,
    Option,
    OptionTable,
    OptionValues,
    duration_ms,
    exact,
    names,
    one_of,
    read_options,
    text,
    true_or_false,
    whole,
)
from flintmq.spark.options.source_table import SOURCE


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


COUNT = Option[int](
    "maxOffsetsPerTrigger", whole(1, 9), 3, "a number", "How many at most.", secret=False
)
NAME = Option[str | None]("subscribe", text, None, "topics", "What to read.")
SECRET = Option[str | None]("secretKey", exact, None, "a text", "A secret.", secret=True)
SHORT_SECRET = Option[int | None]("pin", whole(1), None, "a number", "A secret.", secret=True)
TABLE = OptionTable(
    (COUNT, NAME, SECRET, SHORT_SECRET),
    instead={"topic": "subscribe names the topics", "kafka.": "settings of Kafka mean nothing"},
)


def read(**given: str) -> OptionValues:
    return read_options(given, TABLE, what="the source")


def refusal(given: dict[str, str]) -> InvalidSetting:
    with pytest.raises(InvalidSetting) as raised:
        read_options(given, TABLE, what="the source")
    return raised.value


@pytest.mark.parametrize(
    "name", ["maxOffsetsPerTrigger", "maxoffsetspertrigger", "MAXOFFSETSPERTRIGGER"]
)
def test_names_are_found_whatever_their_case(name: str) -> None:
    values = read(**{name: "7"})

    assert values[COUNT] == 7
    assert COUNT in values


def test_what_is_not_given_has_its_default() -> None:
    values = read()

    assert (values[COUNT], values[NAME]) == (3, None)
    assert COUNT not in values


@pytest.mark.parametrize(
    "name", ["path", "paths", "checkpointLocation", "queryName", "provider", "option.x", "owner"]
)
def test_what_spark_adds_passes(name: str) -> None:
    assert read(**{name: "x", name.lower(): "y"})[COUNT] == 3


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("max_offsets_per_trigger", "maxOffsetsPerTrigger"),
        ("subscribed", "subscribe"),
        ("SUBSCRIB", "subscribe"),
        ("secretkeys", "secretKey"),
    ],
)
def test_an_unknown_name_says_the_nearest_known_one(wrong: str, meant: str) -> None:
    error = refusal({wrong: "1"})

    assert error.setting == wrong
    assert f"did you mean {meant}?" in error.reason
    assert "the source has no such option" in error.reason


def test_names_of_other_sources_say_what_to_give_instead() -> None:
    assert "subscribe names the topics" in refusal({"Topic": "a"}).reason
    assert "Kafka mean nothing" in refusal({"kafka.Bootstrap.servers": "a"}).reason
    assert refusal({"qqqqq": "a"}).reason.endswith("there is no such option")


def test_the_value_of_an_unknown_name_is_not_repeated() -> None:
    assert "hush" not in str(refusal({"secret_keyy": "hush"}))


@pytest.mark.parametrize("value", ["0", "10", "-1", "many", "", "1.5", "9" * 30, "٣"])
def test_a_wrong_value_says_what_is_allowed(value: str) -> None:
    error = refusal({"maxoffsetspertrigger": value})

    assert (error.setting, error.value) == ("maxOffsetsPerTrigger", value)
    assert "a whole number from 1 to 9" in error.reason


def test_a_long_value_is_shortened_and_a_secret_one_not_shown() -> None:
    assert len(refusal({"maxOffsetsPerTrigger": "x" * 500}).value) == 80
    assert "hush" not in str(refusal({"pin": "hush"}))


def test_contradictions_name_both_sides() -> None:
    values = read(subscribe="a", secretKey="b")

    with pytest.raises(InvalidSetting, match="subscribe 'a': contradicts secretKey"):
        values.at_most_one(NAME, COUNT, SECRET)
    with pytest.raises(InvalidSetting, match="subscribe 'a': has no meaning without max"):
        values.needs(NAME, COUNT)
    values.at_most_one(NAME, COUNT)
    values.needs(NAME, COUNT, SECRET)
    values.needs(COUNT, SHORT_SECRET)


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        ("15m", 900_000),
        ("3min", 180_000),
        ("10s", 10_000),
        ("500ms", 500),
        ("250", 250),
        ("0", 0),
        ("2 h", 7_200_000),
        ("1d", 86_400_000),
    ],
)
def test_durations_are_written_as_with_kafka(given: str, ms: int) -> None:
    assert duration_ms(given) == ms


@pytest.mark.parametrize("given", ["", "m", "1.5s", "-1s", "10 weeks"])
def test_other_durations_are_refused(given: str) -> None:
    with pytest.raises(NotAllowed, match="such as 15m or 10s"):
        duration_ms(given)


def test_lists_have_no_empty_and_no_repeated_names() -> None:
    assert names(" a, b ,c") == ("a", "b", "c")
    with pytest.raises(NotAllowed, match="commas between"):
        names("a,,b")
    with pytest.raises(NotAllowed, match="a is there twice"):
        names("a,b,a")


def test_words_are_found_whatever_their_case() -> None:
    assert one_of(Colour)(" Red ") is Colour.RED
    assert true_or_false("TRUE") is True
    with pytest.raises(NotAllowed, match="red, blue"):
        one_of(Colour)("green")
    with pytest.raises(NotAllowed, match="true or false"):
        true_or_false("yes")


def test_only_secrets_keep_their_blanks() -> None:
    assert (text(" a "), exact(" a ")) == ("a", " a ")
    with pytest.raises(NotAllowed, match="must not be empty"):
        text("  ")
    with pytest.raises(NotAllowed, match="must not be empty"):
        exact("")


@pytest.mark.parametrize("option", SOURCE.options, ids=lambda option: option.name)
def test_every_option_of_the_source_has_a_line_of_documentation(option: Option[Any]) -> None:
    assert option.about.endswith(".")
    assert "\n" not in option.about + option.takes
    assert option.takes


def test_whatever_hides_a_secret_is_marked_so() -> None:
    secret = {option.name for option in ACCESS if option.secret}

    assert secret == {"secretKey", "securityToken", "tlsKeyPassword"}


def test_hints_for_names_of_others_are_in_lower_case() -> None:
    known = SOURCE.by_key()

    assert all(name == name.lower() and name not in known for name in SOURCE.instead)
    assert all(name == name.lower() for name in option_table.SPARKS_OWN)
