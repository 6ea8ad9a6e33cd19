"""Keys in Redis, or in anything that speaks its protocol: shared by all members of a group.

    in progress   the owner, with the life of a claim
    done          ``.``, with the time to live

Redis lets keys expire by itself.  It keeps them as well as it is told to: with its defaults the
last second, or all since the last snapshot, is lost when it crashes.

Invariant: a claim is one ``SET … NX``, and only the owner's value is released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from flintmq.client.engine.lifecycle import generation
from flintmq.client.idempotence.key_store import KeyState
from flintmq.errors import MissingExtra

if TYPE_CHECKING:
    import redis

PREFIX: Final = "flintmq:seen:"

_DONE: Final = b"."

_RELEASE: Final = """
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0
"""


class RedisKeys:
    """Keys in the Redis at a URL: ``RedisKeys("redis://127.0.0.1:6379/0")``.

    Connections are opened where they are first used, in a task of Spark too.  ``settings`` go to
    ``redis.Redis.from_url``.
    """

    blocks = True

    def __init__(self, url: str, *, prefix: str = PREFIX, **settings: Any) -> None:
        self._url = url
        self._prefix = prefix
        self._settings: Mapping[str, Any] = settings
        self._client: redis.Redis | None = None
        self._born = -1

    def claim(self, keys: Sequence[str], owner: str, claim_ms: int) -> list[KeyState]:
        pipe = self._open().pipeline(transaction=False)
        for key in keys:
            pipe.set(self._prefix + key, owner, nx=True, px=claim_ms)
            pipe.get(self._prefix + key)
        answers = pipe.execute()
        return [
            _state(is_set=bool(is_set), value=value)
            for is_set, value in zip(answers[::2], answers[1::2], strict=True)
        ]

    def finish(self, keys: Sequence[str], owner: str, ttl_ms: int) -> None:  # noqa: ARG002  # all stores have it
        pipe = self._open().pipeline(transaction=False)
        for key in keys:
            pipe.set(self._prefix + key, _DONE, px=ttl_ms)
        pipe.execute()

    def release(self, keys: Sequence[str], owner: str) -> None:
        pipe = self._open().pipeline(transaction=False)
        for key in keys:
            pipe.eval(_RELEASE, 1, self._prefix + key, owner)
        pipe.execute()

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None and self._born == generation():
            client.close()

    def _open(self) -> redis.Redis:
        if self._client is None or self._born != generation():
            try:
                import redis
            except ImportError:
                raise MissingExtra("redis", "redis") from None
            self._client = redis.Redis.from_url(
                self._url, **{**self._settings, "decode_responses": False}
            )
            self._born = generation()
        return self._client

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_client": None, "_born": -1}

    def __repr__(self) -> str:
        return f"<RedisKeys {self._url.rpartition('@')[2]}>"


def _state(*, is_set: bool, value: bytes | None) -> KeyState:
    if is_set:
        return KeyState.CLAIMED
    return KeyState.DONE if value == _DONE else KeyState.BUSY
