"""A broker and name server in one that means no good: `python hostile.py KIND` prints its address.

It answers well until it is asked what ``KIND`` is about.  A process of its own, so that what it
does takes no time of the client.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import struct
import sys
from collections.abc import Iterator
from typing import Any, cast

ANSWER, ONEWAY = 1, 2
ROUTE, PULL, MAX_OFFSET, MEMBERS = 105, (11, 361), 30, 38
SENDS = (10, 310, 320)
MANY = 60_000


def packed(head: dict[str, Any], body: bytes = b"") -> bytes:
    text = json.dumps(head).encode()
    return struct.pack(">II", 4 + len(text) + len(body), len(text)) + text + body


def answer(to: dict[str, Any], code: int = 0, body: bytes = b"", **fields: object) -> bytes:
    texts = {name: str(value) for name, value in fields.items()}
    head = {"code": code, "opaque": to["opaque"], "flag": ANSWER, "version": 479}
    return packed({**head, "language": "JAVA", "extFields": texts}, body)


def route(here: str, brokers: int = 1, queues: int = 1, addresses: int = 1) -> bytes:
    names = ["b0"] + [f"b{number}" for number in range(1, brokers)]
    return json.dumps(
        {
            "brokerDatas": [
                {
                    "brokerName": name,
                    "cluster": "c",
                    "brokerAddrs": {
                        str(number): here if name == "b0" else f"127.0.0.1:{1_024 + at % 60_000}"
                        for number in range(addresses)
                    },
                }
                for at, name in enumerate(names)
            ],
            "queueDatas": [
                {
                    "brokerName": name,
                    "perm": 6,
                    "readQueueNums": queues,
                    "writeQueueNums": queues,
                    "topicSysFlag": 0,
                }
                for name in names
            ],
            "filterServerTable": {},
        }
    ).encode()


ROUTES = {
    "brokers": {"brokers": MANY},
    "queues": {"queues": 65_536},
    "addresses": {"addresses": MANY},
}


class Talk(socketserver.BaseRequestHandler):
    """One connection."""

    def handle(self) -> None:
        kind = cast(Hostile, self.server).kind
        for head, _ in self._requests():
            if not head["flag"] & ANSWER and not head["flag"] & ONEWAY:
                self._answer(kind, head)

    def _answer(self, kind: str, head: dict[str, Any]) -> None:
        code = head["code"]
        server = cast(Hostile, self.server)
        if code == ROUTE:
            self._say(answer(head, body=server.route))
        elif kind == "unasked":
            while True:
                self._say(answer({"opaque": 2**30}) * 1_000)
        elif kind == "garbage":
            self._say(os.urandom(5_000))
        elif kind == "headers":
            self._say(struct.pack(">II", 5_000, 0xFFFFFF) + b"{" * 5_000)
        elif kind == "silence":
            pass
        elif code in PULL:
            server.pulls += 1
            found = {"nextBeginOffset": 0, "minOffset": 0, "maxOffset": 9}
            kept = {"records": 0, "empty": 20}.get(kind, 19)
            body = os.urandom(4_000) if kind == "records" else b""
            self._say(answer(head, kept, body, suggestWhichBrokerId=0, **found))
        elif code in SENDS:
            self._say(answer(head, 0, msgId="x" * 100, queueId=-7, queueOffset=-1))
        elif code == MEMBERS:
            client = head["extFields"].get("clientId", "")
            body = json.dumps({"consumerIdList": [client or server.client]}).encode()
            self._say(answer(head, body=body))
        else:
            self._say(answer(head, 0, offset=0))

    def _requests(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        stream = self.request.makefile("rb")
        try:
            while len(size := stream.read(4)) == 4:
                frame = stream.read(int.from_bytes(size, "big"))
                length = int.from_bytes(frame[1:4], "big")
                head = json.loads(frame[4 : 4 + length])
                body = frame[4 + length :]
                if head["code"] == 34:
                    cast(Hostile, self.server).client = json.loads(body)["clientID"]
                yield head, body
        except (OSError, ValueError):
            return

    def _say(self, data: bytes) -> None:
        self.request.sendall(data)


class Hostile(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, kind: str) -> None:
        super().__init__(("127.0.0.1", 0), Talk)
        self.kind = kind
        self.pulls = 0
        self.client = ""
        self.here = "{}:{}".format(*self.server_address)
        self.route = route(self.here, **ROUTES.get(kind, {}))

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is what is wanted."""


def main() -> None:
    server = Hostile(sys.argv[1])
    print(server.here, flush=True)
    import threading

    threading.Thread(target=server.serve_forever, daemon=True).start()
    for _ in sys.stdin:
        print(server.pulls, flush=True)
    server.socket.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main()
