"""Keys of consumed messages in a real Redis, fetched from Debian where none is installed."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq import KeyState, RedisKeys
from support.client import key_store_contract as contract
from support.client.key_store_contract import LONG_MS

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.peers.servers import NoServer, redis_side

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp("redis") / "data"
    try:
        with redis_side(directory) as running:
            yield f"redis://{running.namesrv}/0"
    except NoServer as error:
        pytest.skip(str(error))


def test_redis_keeps_the_contract_of_a_store(url: str) -> None:
    for check in (contract.check_states, contract.check_expiry, contract.check_late_owner):
        check(RedisKeys(url, prefix=f"{check.__name__}:"))
    contract.check_race(lambda: RedisKeys(url))


def test_a_store_travels_and_opens_itself_again(url: str) -> None:
    store = RedisKeys(url)
    store.finish(["a"], "me", LONG_MS)
    store.close()

    there: RedisKeys = pickle.loads(pickle.dumps(store))

    assert there.claim(["a"], "you", LONG_MS) == [KeyState.DONE]
    assert store.claim(["a"], "me", LONG_MS) == [KeyState.DONE]
