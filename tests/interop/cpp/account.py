"""Does one thing with an account by the C++ client (PyPI ``rocketmq``) and says how that went.

Usage: python account.py NAMESRV BROKER KEY SECRET VERB NAME...

The words are those of support/interop/account_programs.py; a minus sign is no account.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from rocketmq import client  # type: ignore[import-not-found]  # in the cache, for this program alone
from rocketmq.exceptions import (  # type: ignore[import-not-found]  # the same
    RocketMQException,
)

TAKEN, RETRY = 0, 1


def say(*words: object) -> None:
    print(*words, flush=True)


class Guest:
    """Somebody with an account, or without one."""

    def __init__(self, namesrv: str, _broker: str, key: str, secret: str) -> None:
        self.namesrv = namesrv
        self.account = None if key == "-" else (key, secret)

    def enter(self, who: Any) -> Any:
        who.set_namesrv_addr(self.namesrv)
        if self.account is not None:
            who.set_session_credentials(*self.account, "")
        return who

    def _producer(self) -> Any:
        producer = self.enter(client.Producer("producers", timeout=15_000))
        producer.start()
        return producer

    def send(self, topic: str) -> None:
        self._producer().send_sync(a_message(topic))

    def pull(self, group: str, topic: str) -> None:
        """The binding swallows refusals: it would ask for ever."""
        consumer = self.enter(client.PullConsumer(group))
        consumer.start()
        say("STARTED")
        for _ in consumer.pull(topic, max_num=1):
            return

    def push(self, verb: str, group: str, topic: str, wanted: str) -> None:
        consumer = self.enter(client.PushConsumer(group, orderly=verb == "ORDERLY"))
        started = threading.Event()  # messages come before `start` returns

        def hear(_consumer: Any, handle: Any) -> int:
            message = client.RecvMessage(handle)
            if message.body.decode() != wanted:
                return TAKEN
            started.wait()
            say("HEARD", message.reconsume_times)
            if verb == "BACK" and message.reconsume_times == 0:
                sys.stdin.readline()
                return RETRY
            return TAKEN

        # `subscribe` of the binding loses what a listener answers.
        client.ffi_check(client.dll.Subscribe(consumer._handle, topic.encode(), b"*"))
        consumer._register_callback(hear)
        consumer.start()
        say("STARTED")
        started.set()
        threading.Event().wait()


def a_message(topic: str) -> Any:
    message = client.Message(topic)
    message.set_body("hello")
    return message


def main(words: list[str]) -> None:
    guest, verb, names = Guest(*words[:4]), words[4], words[5:]
    try:
        match verb:
            case "SEND":
                guest.send(*names)
            case "PULL":
                guest.pull(*names)
            case _:
                guest.push(verb, *names)
        say("OK")
    except RocketMQException as error:
        say("FAILED", " ".join(str(error).split()))
    os._exit(0)  # its threads would go on


main(sys.argv[1:])
