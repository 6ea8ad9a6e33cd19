"""Every command that asks a cluster, in one story: ours and the real brokers must play it alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import typer

from flintmq import DeadLetter, PushConsumer, ReceivedMessage
from flintmq.cli.all_commands import app
from support.cli.asking import Ended, Shell
from support.cli.story_tools import (
    change_a_setting,
    compute_sizes,
    follow_one_message,
    look_at_the_cluster,
    mark_and_purge,
    put_a_load,
)
from support.client.support import wait_for

Path = tuple[str, ...]


@cache
def all_commands() -> Mapping[Path, Any]:
    """Every command of the reference, by its words."""
    return dict(_walk((), typer.main.get_command(app)))


def _walk(words: Path, command: Any) -> list[tuple[Path, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        return [(words, command)]
    own = [(words, command)] if command.invoke_without_command and words else []
    return own + [
        found for name, child in children.items() for found in _walk((*words, name), child)
    ]


class Recording(Shell):
    """A user whose commands are remembered; brokers before 5.0 have no modes of groups."""

    def __init__(self, namesrv: str, patience_s: float, *, has_modes: bool = True) -> None:
        super().__init__(namesrv)
        self.ran: set[Path] = set()
        self.patience_s = patience_s
        self.has_modes = has_modes

    def run(self, *arguments: str, input: str | None = None) -> Ended:  # noqa: A002
        self.ran |= {words for words in all_commands() if arguments[: len(words)] == words}
        return super().run(*arguments, input=input)

    def until(self, wanted: Any, *arguments: str, key: str | None = None) -> Any:
        """Wait until a command that gives JSON says what is wanted."""
        found: list[Any] = [None]

        def is_so() -> bool:
            ended = self.run(*arguments, "--output", "json")
            if ended.exit_code != 0:
                return False
            found[0] = json.loads(ended.stdout)
            return bool(wanted(found[0] if key is None else found[0][key]))

        wait_for(is_so, self.patience_s)
        return found[0]


TOPIC, GROUP = "story-orders", "story-billing"
HOPELESS = "3"


def tell(user: Recording) -> None:
    _make_a_topic(user)
    _send_and_read(user)
    look_at_the_cluster(user, TOPIC)
    change_a_setting(user)
    _find_messages(user)
    follow_one_message(user, TOPIC)
    put_a_load(user)
    _move_a_group(user)
    _watch_a_group(user)
    _replay(user)
    mark_and_purge(user, GROUP)
    compute_sizes(user)
    _clean_up(user)


def _make_a_topic(user: Recording) -> None:
    user.told("topic", "create", TOPIC, "--queues", "3")
    user.until(lambda names: TOPIC in [each["topic"] for each in names], "topic", "list")
    user.told("topic", "update", TOPIC, "--queues", "2")
    (broker,) = user.until(
        lambda brokers: brokers[0]["read_queues"] == 2, "topic", "show", TOPIC, key="brokers"
    )["brokers"]

    assert (broker["write_queues"], broker["perm"]) == (2, "RW-")
    assert TOPIC in user.told("topic", "list")
    assert broker["broker"] in user.told("topic", "show", TOPIC)


def _send_and_read(user: Recording) -> None:
    for number in range(6):
        where = f"broker-a/{number % 2}"
        tag = ("--tag", "even") if number % 2 == 0 else ()
        user.told("send", TOPIC, str(number), "--key", f"k-{number}", "--queue", where, *tag)
    user.until(lambda count: count == 6, "topic", "stats", TOPIC, key="messages")
    read = user.lines("tail", TOPIC, "--from", "start", "-e")
    even = user.told("tail", TOPIC, "--from", "start", "-e", "--tag", "even", "-f", r"%s\n")
    last = user.told("tail", TOPIC, "--from", "-1", "-e", "--queue", "1", "-f", "%p %o %s")

    assert "6 messages in 2 queues" in user.told("topic", "stats", TOPIC)
    assert [message["body"] for message in read] == [str(number) for number in range(6)]
    assert even.split() == ["0", "2", "4"]
    assert last == "1 2 5"


def _find_messages(user: Recording) -> None:
    (found,) = user.until(  # some brokers write their index later
        lambda messages: messages, "message", "find", TOPIC, "--key", "k-4"
    )
    by_id = user.facts("message", "find", TOPIC, "--id", found["message_id"])
    by_time = user.facts("message", "find", TOPIC, "--since", "1h", "--until", "now")
    page = user.told("message", "show", found["offset_message_id"])
    table = user.told("message", "find", TOPIC, "--since", "1h")

    assert found["body"] == "4"
    assert by_id == [found]
    assert found["offset_message_id"] in page
    assert len(by_time) == 6
    assert "k-5" in table
    assert user.facts("message", "show", found["message_id"], "--topic", TOPIC) == by_id
    assert user.complaint("message", "find", TOPIC, "--key", "nothing")[0] == 1


def _move_a_group(user: Recording) -> None:
    user.told("group", "create", GROUP, "--tries", "3")
    user.until(lambda groups: GROUP in [each["group"] for each in groups], "group", "list")
    to_start = ("group", "reset", GROUP, "--topic", TOPIC, "--to", "start")
    plan = user.facts(*to_start, "--dry-run")
    user.told(*to_start, "--yes")
    lag = user.until(lambda lag: lag == 6, "group", "lag", GROUP, key="lag")
    moved = user.told("group", "reset", GROUP, "--topic", TOPIC, "--to", "2", "--yes")
    two_left = user.facts("group", "lag", GROUP)["lag"]
    user.told("group", "clone", GROUP, "--to", "story-copy")
    user.told(*to_start, "--yes")
    like = user.facts("group", "reset", GROUP, "--like", "story-copy", "--yes")
    back = user.facts("group", "lag", GROUP)["lag"]
    user.told(*to_start, "--yes")

    assert [queue["to"] for queue in plan["queues"]] == [0, 0]
    assert [queue["consumer_offset"] for queue in lag["queues"]] == [0, 0]
    assert "skipped" in moved
    assert (two_left, back) == (2, 2)
    assert [(queue["topic"], queue["to"]) for queue in like["queues"]] == [(TOPIC, 2)] * 2
    assert GROUP in user.told("group", "list")
    set_mode = ("group", "set-mode", GROUP, TOPIC, "pull")
    if user.has_modes:
        assert "pull" in user.told(*set_mode)
    else:
        assert "this broker is too old for that" in user.complaint(*set_mode)[1]
    assert "6 messages behind" in user.told("group", "lag", GROUP)


def _watch_a_group(user: Recording) -> None:
    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        if messages[0].body.decode() == HOPELESS:
            raise DeadLetter("it is hopeless")

    consumer = PushConsumer(
        GROUP, listen, namesrv=user.namesrv, commit_interval_ms=200, call_timeout_ms=15_000
    )
    asleep = user.facts("group", "show", GROUP)
    with consumer.subscribe(TOPIC):
        user.until(lambda queues: _lag(queues) == 0, "group", "lag", GROUP, key="queues")
        shown = user.until(
            lambda members: members and members[0]["queues"], "group", "show", GROUP, key="members"
        )
        page = user.told("group", "show", GROUP)
        online = user.facts("group", "connections", GROUP)
        table = user.told("group", "connections", GROUP)
        looks = user.lines(*("group", "lag", GROUP, "--watch", "--count", "2", "--interval", "0.1"))

    assert {each["why"] for each in asleep["queues"]} == {"no member is online"}
    assert shown["conflicts"] == []
    assert [member["client_id"] for member in shown["members"]] == [consumer.client_id]
    assert {"topic": TOPIC, "expression": "*", "kind": "TAG"} in shown["subscriptions"]
    assert consumer.client_id in page
    assert [each["client_id"] for each in online["consumers"]] == [consumer.client_id]
    assert consumer.client_id in table
    assert [look["drain_s"] for look in looks][-1] == 0
    assert [look["consumed_per_s"] for look in looks] == [None, None]  # no two commits were seen


def _lag(queues: list[dict[str, Any]]) -> int:
    return sum(each["lag"] for each in queues if each["topic"] == TOPIC)


def _replay(user: Recording) -> None:
    (letter,) = user.until(lambda letters: letters, "dlq", "list", GROUP)
    counts = user.until(
        lambda counts: (GROUP, 1) in [(each["group"], each["count"]) for each in counts],
        *("dlq", "list"),
    )
    page = user.told("dlq", "show", GROUP, letter["message_id"])
    planned = user.facts("dlq", "replay", GROUP, "--to", "topic", "--dry-run")
    sent = user.facts("dlq", "replay", GROUP, "--to", "topic", "--yes", "--rate", "100")
    again = user.lines("tail", TOPIC, "--from", "-1", "-e")

    assert (letter["body"], letter["origin_topic"]) == (HOPELESS, TOPIC)
    assert counts
    assert f"of {TOPIC}, tried" in page
    assert (planned["chosen"], planned["sent"]) == (1, [])
    assert [each["message_id"] for each in sent["sent"]] == [letter["message_id"]]
    assert letter["message_id"] in [message["message_id"] for message in again]
    assert HOPELESS in user.told("dlq", "list", GROUP)


def _clean_up(user: Recording) -> None:
    def names(groups: list[dict[str, Any]]) -> set[str]:
        return {each["group"] for each in groups}

    user.told("group", "delete", GROUP, "--yes")
    user.until(lambda groups: GROUP not in names(groups), "group", "list")
    deleted = user.facts("topic", "delete", TOPIC, "--yes")
    user.until(lambda topics: TOPIC not in [each["topic"] for each in topics], "topic", "list")

    assert deleted == {"topic": TOPIC, "deleted_from": ["broker-a"]}
    code, words = user.complaint("topic", "show", TOPIC)
    assert code == 1
    assert "flintmq topic list" in words
