"""`flintmq tail` prints what is there in the order it was stored, and then what comes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from flintmq import Message, Producer
from support.cli.asking import Shell, shell
from support.cli.serving import COMMAND, environment


@pytest.fixture(scope="module")
def user() -> Iterator[Shell]:
    with shell(brokers=2) as opened:
        opened.fill("orders", 8, queues=2)
        yield opened


def test_the_backlog_comes_in_the_order_it_was_stored_over_all_queues(user: Shell) -> None:
    messages = user.lines("tail", "orders", "--from", "start", "--no-follow")

    times = [message["store_ms"] for message in messages]
    assert sorted(message["body"] for message in messages) == [str(n) for n in range(8)]
    assert times == sorted(times)
    assert {message["broker"] for message in messages} == {"broker-a", "broker-b"}


def test_one_begins_where_one_wants(user: Shell) -> None:
    def bodies(*arguments: str) -> set[str]:
        found = user.lines("tail", "orders", "--no-follow", *arguments)
        return {message["body"] for message in found}

    assert bodies("--from", "end") == set()
    assert bodies("--from", "1") == {"4", "5", "6", "7"}
    assert bodies("--from", "1h") == {str(n) for n in range(8)}
    assert bodies("--from", "-1") == {"4", "5", "6", "7"}
    assert bodies("--from", "s@1000000000000") == {str(n) for n in range(8)}
    assert bodies("--from", "start", "--broker", "broker-b", "--queue", "1") == {"3", "7"}


def test_messages_are_chosen_by_tag_or_condition(user: Shell) -> None:
    even = user.lines("tail", "orders", "--from", "start", "--no-follow", "--tag", "even")
    high = user.lines("tail", "orders", "--from", "start", "--no-follow", "--sql", "number > 5")

    assert {message["body"] for message in even} == {"0", "2", "4", "6"}
    assert {message["body"] for message in high} == {"6", "7"}


def test_several_topics_come_in_one_order(user: Shell) -> None:
    user.fill("bills", 4)
    everything = ("--from", "start", "--no-follow")

    messages = user.lines("tail", "orders", "bills", "orders", *everything)
    told = user.told("tail", "orders", "bills", *everything)

    times = [message["store_ms"] for message in messages]
    topics = [message["topic"] for message in messages]
    assert times == sorted(times)
    assert (topics.count("orders"), topics.count("bills")) == (8, 4)
    assert " bills/broker-" in told
    assert user.complaint("tail", "orders", "nowhere", *everything)[0] == 1


def test_a_pipe_gets_the_bytes_that_were_sent(user: Shell) -> None:
    body = bytes(range(256)) * 3
    user.told("topic", "create", "pictures", "--queues", "1", "--broker", "broker-a")
    with Producer("shop", namesrv=user.namesrv) as producer:
        producer.send(Message("pictures", body))

    words = ("tail", "pictures", "--from", "start", "-e", "--format", r"%s\xff%t")
    done = subprocess.run(
        [COMMAND, *words, "--namesrv", user.namesrv],
        capture_output=True,
        check=True,
        env=environment(),
    )

    assert done.stdout == body + b"\xffpictures"


@pytest.mark.parametrize("words", [("-f", "orders"), ("-f", "orders", "bills")])
def test_who_means_follow_is_told_what_f_is(user: Shell, words: tuple[str, ...]) -> None:
    code, said = user.complaint("tail", *words)

    assert code == 2
    assert "-f is --format; tail follows by default" in said


def test_a_line_looks_as_one_wants(user: Shell) -> None:
    told = user.told(
        "tail", "orders", "--from", "start", "--count", "1", "--format", r"%g %k\t%s%%\n"
    )
    usual = user.told("tail", "orders", "--from", "start", "--count", "2")

    assert told == "even k-0\t0%\n"
    assert len(usual.splitlines()) == 2
    assert "broker-a/0/0 even 0" in usual


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nothing",), 1, "no route"),
        (("orders", "--queue", "9"), 1, "no such queue"),
        (("orders", "--tag", "a", "--sql", "b > 1"), 2, "not both"),
        (("orders", "--from", "soon"), 2, "ten minutes ago"),
        (("orders", "--from", "start", "--format", "%y"), 2, "%y is not known"),
        (("orders", "--from", "start", "--format", "%s %"), 2, "ends in the middle"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(
    user: Shell, arguments: tuple[str, ...], code: int, words: str
) -> None:
    found = user.complaint("tail", *arguments)

    assert found[0] == code, found
    assert words in found[1]


def started(user: Shell, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND, "tail", *arguments, "--namesrv", user.namesrv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def test_what_comes_is_printed_as_it_comes(user: Shell) -> None:
    user.fill("coming", 1)
    process = started(user, "coming", "--from", "start", "--output", "json", "--count", "3")
    try:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())  # it reads now: the rest comes live
        user.told("send", "coming", "second")
        second = json.loads(process.stdout.readline())
        user.told("send", "coming", "third")
        third = json.loads(process.stdout.readline())
        code = process.wait(timeout=60)
    finally:
        process.kill()
        process.communicate()

    assert [message["body"] for message in (first, second, third)] == ["0", "second", "third"]
    assert code == 0


def test_an_interrupt_is_a_good_end(user: Shell) -> None:
    import signal

    process = started(user, "orders", "--from", "start")
    try:
        assert process.stdout is not None
        for _ in range(8):
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()

    assert process.returncode == 0
    assert "Traceback" not in errors


def test_a_reader_that_has_seen_enough_ends_it_quietly(user: Shell) -> None:
    user.fill("long", 300)
    with started(
        user, "long", "--from", "start", "-e", "--format", "%s" + 500 * "." + r"\n"
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        code = process.wait(timeout=60)

    assert (code, errors) == (0, "")
