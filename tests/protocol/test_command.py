"""A command says whether it asks or answers, and keeps every field it was given."""

from __future__ import annotations

import pickle

import pytest

from flintmq.errors import MalformedHeader
from flintmq.protocol.command import LANGUAGE, VERSION, Command, answer, request
from flintmq.protocol.fields import NO_FIELDS, write_fields
from flintmq.protocol.headers.common_headers import OfQueue, OfTopic
from flintmq.protocol.language import NAMES
from flintmq.protocol.version import version_name


def test_a_request_wants_an_answer() -> None:
    asked = request(105, OfTopic(topic="orders"), b"body")

    assert (asked.is_answer, asked.is_oneway) == (False, False)
    assert (asked.code, asked.body) == (105, b"body")
    assert asked.field_texts() == {"topic": "orders"}


def test_an_oneway_request_does_not() -> None:
    told = request(15, oneway=True)

    assert (told.is_answer, told.is_oneway, told.flag) == (False, True, 2)


def test_an_answer_carries_the_number_of_its_request() -> None:
    asked = request(105, opaque=77)

    said = answer(asked, 17, remark="no such topic")

    assert (said.is_answer, said.flag, said.opaque) == (True, 1, 77)
    assert (said.code, said.remark) == (17, "no such topic")


def test_what_we_send_says_who_we_are() -> None:
    """A broker below V4_1_0 in its heartbeat answer would not be sent SQL92."""
    asked = request(34)
    said = answer(asked, 0)

    assert (asked.version, asked.language) == (said.version, said.language) == (VERSION, LANGUAGE)
    assert version_name(VERSION) == "V5_3_3"
    assert LANGUAGE in NAMES


def test_a_missing_version_and_language_mean_what_java_takes_them_for() -> None:
    assert (Command().version, Command().language) == (0, "JAVA")


def test_without_a_header_there_are_no_fields() -> None:
    assert request(34).fields == NO_FIELDS
    assert answer(request(34), 0).fields == NO_FIELDS


def test_one_command_can_be_read_as_several_headers() -> None:
    command = Command(fields=write_fields({"topic": "t", "queueId": "3", "bname": "b"}))

    assert command.header(OfTopic) == OfTopic(topic="t")
    assert command.header(OfQueue) == OfQueue(topic="t", queue_id=3, broker_name="b")


def test_a_bad_field_is_named() -> None:
    command = Command(fields=write_fields({"topic": "t", "queueId": "three"}))

    with pytest.raises(MalformedHeader) as caught:
        command.header(OfQueue)

    assert caught.value.field == "queueId"


def test_a_command_survives_pickling() -> None:
    command = request(105, OfTopic(topic="orders"), b"body", opaque=3)

    assert pickle.loads(pickle.dumps(command)) == command
