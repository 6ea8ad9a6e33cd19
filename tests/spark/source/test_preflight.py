"""What Spark would say on a page is said in a sentence, and mostly before Spark starts."""

from __future__ import annotations

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting, NoRoute, Unreachable
from flintmq.spark.source.preflight import (
    as_texts,
    check_source,
    has_option,
    require_driver,
    sentence,
)

OF_A_STREAM = """[STREAM_FAILED] Query [id = 1] terminated: Traceback (most recent call last):
  File "resolve.py", line 45, in report
    raise MessagesLost(str(queue), start, stop, f"{reason}; {advice}")
flintmq.errors.MessagesLost: orders/broker-a/0: messages 1 to 101 are lost: deleted
 SQLSTATE: 38000
"""


def test_our_own_words_are_found_in_an_error_of_spark() -> None:
    assert sentence(ValueError(OF_A_STREAM)) == (
        "orders/broker-a/0: messages 1 to 101 are lost: deleted"
    )
    assert sentence(ValueError("\n[PARSE] Syntax error\nmore")) == "[PARSE] Syntax error"
    assert sentence(ValueError()) == "ValueError"


def test_options_are_texts_and_topics_are_named_once() -> None:
    assert as_texts({"tags": None, "failOnDataLoss": False, "n": 3}, ["a", "b"]) == {
        "failOnDataLoss": "false",
        "n": "3",
        "subscribe": "a,b",
    }
    assert has_option({"StartingOffsets": "earliest"}, "startingOffsets")
    with pytest.raises(InvalidSetting, match="named twice"):
        as_texts({"Subscribe": "a"}, "b")


def test_a_read_that_cannot_work_fails_here(broker: EmbeddedBroker) -> None:
    with pytest.raises(NoRoute):
        check_source({"namesrv": broker.namesrv, "subscribe": "nowhere"}, stream=True)
    with pytest.raises(Unreachable):
        check_source({"namesrv": "127.0.0.1:1", "subscribe": "orders"}, stream=False)
    with pytest.raises(InvalidSetting, match="Spark Connect"):
        require_driver(object(), "that does not work")
