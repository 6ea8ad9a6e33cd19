"""What Spark pickles for a worker makes it acknowledge at once what the JVM sent."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from flintmq.arrow.reading.access import Access
from flintmq.spark.environment.jvm_socket import FromJvm, acknowledge_now
from flintmq.spark.options.source_options import SourceOptions
from flintmq.spark.source.batch_read import BatchReader
from flintmq.spark.source.stream import StreamReader

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux has it")


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    """One end of a connection to this machine that acknowledges late and sends late."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        stack.enter_context(socket.create_connection(server.getsockname()))
        accepted = stack.enter_context(server.accept()[0])
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        assert settings_of(accepted) == (0, 0)
        yield accepted


def settings_of(connection: socket.socket) -> tuple[int, int]:
    wanted = (socket.TCP_QUICKACK, socket.TCP_NODELAY)
    quick, no_delay = (connection.getsockopt(socket.IPPROTO_TCP, name) for name in wanted)
    return quick, no_delay


def test_connections_to_this_machine_acknowledge_and_send_at_once(
    connection: socket.socket,
) -> None:
    acknowledge_now()

    assert settings_of(connection) == (1, 1)


def test_sockets_of_other_kinds_are_left_alone() -> None:
    one, other = socket.socketpair()
    with one, other, socket.socket() as unconnected:
        acknowledge_now()

        assert settings_of(unconnected)[1] == 0
        one.sendall(b"still there")
        assert other.recv(64) == b"still there"


@pytest.mark.parametrize("kind", [BatchReader, StreamReader])
def test_a_reader_that_comes_to_a_worker_does_it(
    kind: type[BatchReader | StreamReader], connection: socket.socket
) -> None:
    options = SourceOptions.parse({"namesrv": "127.0.0.1:9876", "subscribe": "t"}, stream=False)
    pickled = pickle.dumps(kind(options))
    assert settings_of(connection) == (0, 0)

    reader = pickle.loads(pickled)

    assert isinstance(reader, FromJvm)
    assert vars(reader)["_options"] == options
    assert isinstance(vars(reader)["_options"].access, Access)
    assert settings_of(connection) == (1, 1)
