"""A child process that uses a client of its parent gets a clear error; its own clients work."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import pytest

from flintmq import Message, Producer
from flintmq.client.engine.client_id import message_ids
from flintmq.client.engine.lifecycle import check_generation, generation
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import WrongState

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),  # from 3.12 on
]


def in_child(act: Callable[[], str]) -> str:
    """What a child process says after doing something."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = act()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(pid, 0)
    return said


def _stop(producer: Producer) -> str:
    producer.stop()
    return "stopped"


def test_a_producer_of_the_parent_is_refused_in_the_child(broker: EmbeddedBroker) -> None:
    with Producer("forked", namesrv=broker.namesrv) as producer:
        producer.send(Message("forked", b"x"))

        said = in_child(lambda: str(producer.send(Message("forked", b"x"))))
        stopped = in_child(partial(_stop, producer))

        producer.send(Message("forked", b"y"))
    assert said.startswith("WrongState: Producer 'forked' is forked")
    assert "make one of your own" in said
    assert stopped.startswith("WrongState")


def test_a_child_can_have_a_producer_of_its_own(broker: EmbeddedBroker) -> None:
    def send() -> str:
        with Producer("forked", namesrv=broker.namesrv, instance_name="fixed") as producer:
            return producer.send(Message("forked", b"x")).message_id

    with Producer("forked", namesrv=broker.namesrv, instance_name="fixed") as producer:
        own = producer.send(Message("forked", b"x")).message_id
        theirs = in_child(send)

    assert len(theirs) == len(own)
    assert theirs[:20] != own[:20], "ids tell processes apart"


def test_a_fork_changes_the_generation_in_the_child_alone() -> None:
    before = generation()

    said = in_child(lambda: str(generation()))

    assert said == str(before + 1)
    assert generation() == before
    with pytest.raises(WrongState, match="thing is forked"):
        check_generation(before - 1, "thing")
    check_generation(before, "thing")


def test_ids_of_a_process_come_from_one_source() -> None:
    assert message_ids() is message_ids()
