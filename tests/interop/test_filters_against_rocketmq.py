"""Tag subscriptions and bloom filters come out of RocketMQ's classes as they come out of ours."""

from __future__ import annotations

from random import Random

import pytest

from flintmq.errors import InvalidExpression
from flintmq.filter.bloom import bloom_filter
from flintmq.filter.tags import parse_tags
from flintmq.model.java_hash import java_hash
from support.interop.judge import ask_judge, hexadecimal

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("java")]

VERSIONS = ["5.3.3", "4.9.7"]
PIECES = (
    "||",
    "||",
    "|",
    " ",
    "a",
    "B",
    "TagA",
    "*",
    "\u65e5",
    "\U0001f600",
    "\t",
    "\u3000",
    "\x00",
)


def tags_answer(text: str) -> str:
    try:
        subscription = parse_tags(text)
    except InvalidExpression:
        return "REFUSED"
    ordered = sorted(subscription.tags, key=lambda tag: tag.encode("utf-16-be"))
    pairs = [f"{hexadecimal(tag)}={java_hash(tag)}" for tag in ordered]
    return " ".join(["ACCEPTED", hexadecimal(subscription.text), *pairs])


@pytest.mark.parametrize("version", VERSIONS)
def test_tag_subscriptions_are_read_alike(version: str) -> None:
    chance = Random(1)
    texts = ["".join(chance.choices(PIECES, k=chance.randint(0, 7))) for _ in range(3_000)]

    answers = ask_judge(version, (f"TAGS {hexadecimal(text)}" for text in texts))

    assert answers == [tags_answer(text) for text in texts]


@pytest.mark.parametrize("version", VERSIONS)
def test_bloom_filters_have_the_same_bits(version: str) -> None:
    chance = Random(2)
    questions, wanted = [], []
    for n in range(2_000):
        length = chance.randint(0, 40)
        text = "".join(
            chr(chance.choice((chance.randint(33, 126), 0x65E5, 0x1F600))) for _ in range(length)
        )
        percent, count = (20, 32) if n % 2 else (chance.randint(1, 99), chance.randint(1, 500))
        shape = bloom_filter(percent, count)
        questions.append(f"BLOOM {percent} {count} {hexadecimal(text)}")
        wanted.append(" ".join(map(str, [*shape.positions(text), shape.bit_count])))

    assert ask_judge(version, questions) == wanted
