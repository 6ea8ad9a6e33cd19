"""Ports that are free together, for servers that must be told theirs."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

PORTS = range(20_000, 32_000)
"""Below those the system gives to connections."""


def port_with_one_below(distance: int) -> int:
    """A free port of loopback with another free one so far below it."""
    for port in random.sample(PORTS, len(PORTS)):
        with ExitStack() as both:
            try:
                for each in (port, port - distance):
                    both.enter_context(socket.create_server(("127.0.0.1", each)))
            except OSError:
                continue
            return port
    raise AssertionError("no two ports are free")
