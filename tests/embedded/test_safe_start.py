"""What a server is started with keeps strangers out, or the start says why it does not.

The account between servers is a super user that is in no file: it is looked at with the eyes of
somebody who wants to be it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from flintmq.access.accounts import AUTH_FILE, PLAIN_FILE
from flintmq.access.rules import Dialect
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.config.config_file import read_broker_conf
from flintmq.broker.server import BrokerServer
from flintmq.core.account import Account
from flintmq.embedded.account_files import INNER_USER, AccountFiles, AccountPlan
from flintmq.embedded.servers import BrokerPlan, Servers
from flintmq.errors import FlintError, InvalidSetting
from flintmq.net.address import Address
from flintmq.net.channels.channel_pool import Channels
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.fields import write_fields

HERE = Address("127.0.0.1", 0)
ROOT = Account("root", "rootpw12")
FIRST = ("root", "rootpw12")
CALL_MS = 60_000


def plan(directory: Path, **more: object) -> AccountPlan:
    return AccountPlan(Dialect.AUTH, directory / "accounts", **more)  # type: ignore[arg-type]


@asynccontextmanager
async def serving(directory: Path, accounts: AccountPlan) -> AsyncIterator[Servers]:
    servers = await Servers.start([BrokerPlan(directory=directory / "store")], accounts=accounts)
    try:
        yield servers
    finally:
        await servers.stop()


async def ask(
    channels: Channels, address: object, code: RequestCode, who: Account, **fields: str
) -> Command:
    command = Command(code=code, version=479, fields=write_fields(fields))
    return await channels.call(str(address), who.sign(command), CALL_MS)


@pytest.mark.parametrize("secret", ["", "      ", "short1", "a" * 6])
@pytest.mark.parametrize("dialect", list(Dialect), ids=["ACL 1.0", "ACL 2.0"])
def test_an_inner_account_that_anybody_could_guess_stops_the_start(
    tmp_path: Path, dialect: Dialect, secret: str
) -> None:
    for name in ("inner", ""):
        with pytest.raises(InvalidSetting, match="inner account") as caught:
            AccountFiles(AccountPlan(dialect, tmp_path, inner=Account(name, secret)))
        assert not secret.strip() or secret not in str(caught.value)


@pytest.mark.parametrize("password", ["", " "])
def test_a_first_user_without_a_password_stops_the_start(tmp_path: Path, password: str) -> None:
    async def run() -> None:
        with pytest.raises(FlintError, match="password can not be blank"):
            async with serving(tmp_path, plan(tmp_path, first_user=("root", password))):
                raise AssertionError("it started")

    asyncio.run(run())


def test_nobody_is_the_inner_account_by_its_name(tmp_path: Path) -> None:
    """Not by a guess, and not by a user of the same name that an administrator makes."""
    guesses = ("", INNER_USER, "null", "None", "rootpw12", "chosen-password")

    async def run() -> None:
        channels = Channels()
        try:
            async with serving(tmp_path, plan(tmp_path, first_user=FIRST)) as servers:
                (broker,) = servers.brokers.values()
                user = json.dumps({"password": "chosen-password", "userType": "Super"}).encode()
                made = Command(
                    code=RequestCode.AUTH_CREATE_USER,
                    version=479,
                    fields=write_fields({"username": INNER_USER}),
                    body=user,
                )
                await channels.call(str(broker.address), ROOT.sign(made), CALL_MS)
                for where in (broker.address, servers.namesrv[0]):
                    for secret in guesses:
                        who = Account(INNER_USER, secret)
                        code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
                        if where == broker.address:
                            code = RequestCode.GET_BROKER_CONFIG
                        answer = await ask(channels, where, code, who)
                        assert answer.code == ResponseCode.NO_PERMISSION, (where, secret)
        finally:
            await channels.close()

    asyncio.run(run())


def test_no_answer_shows_the_inner_account_or_a_secret(tmp_path: Path) -> None:
    """Not to a super user either: lists of users, settings, runtime figures, members."""
    inner = Account("between-servers", "between-servers-pw")
    asked = [
        RequestCode.AUTH_LIST_USER,
        RequestCode.AUTH_LIST_ACL,
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.GET_ALL_PRODUCER_INFO,
    ]

    async def run() -> None:
        channels = Channels()
        try:
            async with serving(tmp_path, plan(tmp_path, first_user=FIRST, inner=inner)) as servers:
                (broker,) = servers.brokers.values()
                for code in asked:
                    answer = await ask(channels, broker.address, code, ROOT)
                    assert answer.code == ResponseCode.SUCCESS, answer
                    shown = answer.body + json.dumps(answer.field_texts()).encode()
                    assert inner.secret_key.encode() not in shown, code
                    assert inner.access_key.encode() not in shown, code
            kept = (tmp_path / "accounts" / AUTH_FILE).read_text()
            assert inner.secret_key not in kept
        finally:
            await channels.close()

    asyncio.run(run())


def test_settings_of_a_file_hide_the_inner_account() -> None:
    text = 'innerClientAuthenticationCredentials={"accessKey":"inner","secretKey":"between-us"}\n'
    settings, _ = read_broker_conf(text.encode())

    assert settings.inner == ("inner", "between-us")
    assert "between-us" not in repr(settings)


def test_a_broker_without_the_inner_account_is_not_registered(tmp_path: Path) -> None:
    """A broker that cannot prove itself is in no route, whatever name and address it says."""
    inner = Account("between-servers", "between-servers-pw")

    async def run() -> None:
        async with serving(tmp_path, plan(tmp_path, first_user=FIRST, inner=inner)) as servers:
            (name_server,) = servers.name_servers
            before = name_server.state.routes.cluster()
            for number, claimed in enumerate((None, ROOT_GUESS, Account("between-servers", "x"))):
                rogue = await BrokerServer.start(
                    tmp_path / f"rogue{number}",
                    BrokerConfig(broker_name="broker-a"),
                    listen=HERE,
                    namesrv=servers.namesrv,
                    inner=claimed,
                )
                await rogue.registered.wait()  # it has tried
                await rogue.stop()
                assert name_server.state.routes.cluster() == before

    asyncio.run(run())


ROOT_GUESS = Account("root", "rootpw13")


@pytest.mark.parametrize("pattern", ["*", "*.*.*.*"])
def test_a_white_list_of_everybody_is_logged_as_what_it_is(
    tmp_path: Path, pattern: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / PLAIN_FILE
    path.write_text(f"globalWhiteRemoteAddresses: ['{pattern}']\n")
    path.chmod(0o600)

    with caplog.at_level(logging.WARNING):
        files = AccountFiles(AccountPlan(Dialect.PLAIN, tmp_path))
        files.open()

    assert "everybody who reaches a port may do everything, unsigned" in caplog.text
    caplog.clear()
    files.look_again({PLAIN_FILE: b"globalWhiteRemoteAddresses: ['10.0.0.*']\n"})
    assert "everybody" not in caplog.text
