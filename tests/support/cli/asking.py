"""Commands that ask a cluster, run in this process against an embedded broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from typer.testing import CliRunner

from flintmq.cli.all_commands import app
from flintmq.client.admin import Admin
from flintmq.client.producer.threaded_producer import Producer
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.message import Message

WIDE = {"COLUMNS": "200", "NAMESRV_ADDR": None, "FLINTMQ_NAMESRV": None}


class Ended(NamedTuple):
    """How a command ended, and what it printed where."""

    exit_code: int
    stdout: str
    stderr: str


class Shell:
    """A user in front of one cluster."""

    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv

    def run(self, *arguments: str, input: str | None = None) -> Ended:  # noqa: A002
        """Run a command, whatever its end."""
        environment = {**WIDE, "NAMESRV_ADDR": self.namesrv}
        done = CliRunner().invoke(app, list(arguments), input=input, env=environment)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception  # a user would see a traceback
        return Ended(done.exit_code, done.stdout, done.stderr)

    def told(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002
        """What a command that succeeds prints."""
        done = self.run(*arguments, input=input)
        assert done.exit_code == 0, done
        return done.stdout

    def facts(self, *arguments: str) -> Any:
        """What it prints for programs."""
        return json.loads(self.told(*arguments, "--output", "json"))

    def lines(self, *arguments: str, input: str | None = None) -> list[Any]:  # noqa: A002
        told = self.told(*arguments, "--output", "json", input=input)
        return [json.loads(line) for line in told.splitlines()]

    def complaint(self, *arguments: str) -> tuple[int, str]:
        """Exit code and words of a command that fails."""
        done = self.run(*arguments)
        assert "Traceback" not in done.stdout + done.stderr
        return done.exit_code, done.stderr

    def fill(self, topic: str, count: int, *, queues: int = 1) -> None:
        """Messages 0, 1, 2 …, in turn over the queues, every other one with a tag."""
        with Admin(namesrv=self.namesrv) as admin:
            admin.create_topic(topic, queues=queues)
            places = admin.route(topic).publish_queues(topic)
        with Producer("shop", namesrv=self.namesrv) as producer:
            for n in range(count):
                tag = "even" if n % 2 == 0 else None
                properties = {"number": str(n)}
                message = Message(
                    topic, b"%d" % n, tags=tag, keys=[f"k-{n}"], properties=properties
                )
                producer.send(message, queue=places[n % len(places)])


@contextmanager
def shell(brokers: int = 1) -> Iterator[Shell]:
    with EmbeddedBroker(brokers=brokers) as running:
        yield Shell(running.namesrv)
