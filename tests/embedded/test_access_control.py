"""With access control on, who has the rights is served and nobody else is, by broker and name
server alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypedDict, Unpack

import pytest

from flintmq import aio
from flintmq.access.rules import Dialect
from flintmq.embedded.account_files import AccountPlan
from flintmq.embedded.servers import BrokerPlan, NameServerPlan, Servers
from flintmq.errors import BrokerRefused, FlintError, InvalidSetting, SendFailed
from flintmq.model.message import Message, ReceivedMessage

P = ParamSpec("P")


class Key(TypedDict, total=False):
    access_key: str
    secret_key: str


ADMIN = Key(access_key="admin123", secret_key="admin123pw")
WRITER = Key(access_key="writer12", secret_key="writer12pw")
READER = Key(access_key="reader12", secret_key="reader12pw")
ROOT = Key(access_key="root", secret_key="rootpw12")


def on_a_loop(test: Callable[P, Coroutine[None, None, None]]) -> Callable[P, None]:
    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


PLAIN = """
accounts:
  - {accessKey: admin123, secretKey: admin123pw, admin: true}
  - {accessKey: writer12, secretKey: writer12pw, topicPerms: [orders=PUB]}
  - {accessKey: reader12, secretKey: reader12pw, topicPerms: [orders=SUB], groupPerms: [g=SUB]}
"""


def a_file(path: Path, content: str) -> None:
    path.write_text(content)
    path.chmod(0o600)


@asynccontextmanager
async def serving(directory: Path, accounts: AccountPlan) -> AsyncIterator[Servers]:
    servers = await Servers.start(
        [BrokerPlan(directory=directory / "store")],
        [NameServerPlan()],
        accounts=accounts,
    )
    try:
        yield servers
    finally:
        await servers.stop()


def plain(directory: Path) -> AccountPlan:
    a_file(directory / "plain_acl.yml", PLAIN)
    return AccountPlan(Dialect.PLAIN, directory)


def auth(directory: Path) -> AccountPlan:
    return AccountPlan(Dialect.AUTH, directory, first_user=("root", "rootpw12"))


def namesrv(servers: Servers) -> str:
    return ";".join(map(str, servers.namesrv))


async def send(servers: Servers, topic: str, **account: Unpack[Key]) -> None:
    async with aio.Producer("p", namesrv=namesrv(servers), retries=0, **account) as producer:
        await producer.send(Message(topic, b"hello"))


async def outcome(servers: Servers, topic: str, **account: Unpack[Key]) -> str:
    try:
        await send(servers, topic, **account)
    except (SendFailed, BrokerRefused, FlintError) as error:
        return str(error)
    return "sent"


@on_a_loop
async def test_accounts_of_acl_1_are_served_by_their_permissions(tmp_path: Path) -> None:
    async with serving(tmp_path, plain(tmp_path)) as servers:
        async with aio.Admin(namesrv=namesrv(servers), **ADMIN) as tools:
            await tools.create_topic("orders")

        assert await outcome(servers, "orders", **WRITER) == "sent"
        assert "AclException" in await outcome(servers, "other", **WRITER)
        assert "No accessKey is configured" in await outcome(servers, "orders")
        wrong = await outcome(servers, "orders", access_key="writer12", secret_key="guessed12")
        assert "Check signature failed for accessKey=writer12" in wrong


@on_a_loop
async def test_users_of_acl_2_are_served_by_their_policies(tmp_path: Path) -> None:
    async with serving(tmp_path, auth(tmp_path)) as servers:
        assert await outcome(servers, "orders", **ROOT) == "sent"
        assert "username cannot be null." in await outcome(servers, "orders")
        unknown = await outcome(servers, "orders", access_key="eve", secret_key="evepw123")
        assert "User:eve is not found." in unknown


@on_a_loop
async def test_a_changed_file_counts_without_a_restart_and_a_broken_one_does_not(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, plain(tmp_path)) as servers:
        files = servers._files
        assert files is not None
        async with aio.Admin(namesrv=namesrv(servers), **ADMIN) as tools:
            await tools.create_topic("orders")
        assert await outcome(servers, "orders", **WRITER) == "sent"

        files.look_again({"plain_acl.yml": b"accounts: ["})
        assert await outcome(servers, "orders", **WRITER) == "sent"
        assert "is no YAML" in (files.accounts.fault or "")

        files.look_again({"plain_acl.yml": b""})
        assert "No acl config for writer12" in await outcome(servers, "orders", **WRITER)


@pytest.mark.parametrize("content", ["accounts: [", "accounts: [{accessKey: a, secretKey: b}]"])
@on_a_loop
async def test_a_fault_in_the_files_stops_the_start(tmp_path: Path, content: str) -> None:
    a_file(tmp_path / "plain_acl.yml", content)

    with pytest.raises(InvalidSetting):
        async with serving(tmp_path, AccountPlan(Dialect.PLAIN, tmp_path)):
            pass


@on_a_loop
async def test_files_that_others_may_read_stop_the_start(tmp_path: Path) -> None:
    plan = plain(tmp_path)
    (tmp_path / "plain_acl.yml").chmod(0o644)

    with pytest.raises(InvalidSetting, match="chmod 600"):
        async with serving(tmp_path, plan):
            pass


@on_a_loop
async def test_users_are_kept_on_disk_for_their_owner_alone(tmp_path: Path) -> None:
    async with serving(tmp_path, auth(tmp_path)):
        pass

    path = tmp_path / "accounts.json"
    assert path.stat().st_mode & 0o077 == 0
    async with serving(tmp_path, AccountPlan(Dialect.AUTH, tmp_path)) as servers:
        assert await outcome(servers, "orders", **ROOT) == "sent"


@on_a_loop
async def test_a_consumer_without_rights_gets_nothing_and_hears_why(tmp_path: Path) -> None:
    async with serving(tmp_path, plain(tmp_path)) as servers:
        async with aio.Admin(namesrv=namesrv(servers), **ADMIN) as tools:
            await tools.create_topic("orders")
        await send(servers, "orders", **ADMIN)
        got: list[bytes] = []
        done = asyncio.Event()

        async def listener(messages: tuple[ReceivedMessage, ...]) -> None:
            got.extend(message.body for message in messages)
            done.set()

        async def consume(group: str) -> None:
            consumer = aio.PushConsumer(
                group, namesrv=namesrv(servers), start_from="first", **READER
            )
            consumer.subscribe("orders", listener=listener)
            async with consumer:
                await asyncio.wait_for(done.wait(), 20)

        await consume("g")

        assert got == [b"hello"]
        with pytest.raises(FlintError, match="No default permission for group:other"):
            await consume("other")
