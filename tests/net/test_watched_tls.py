"""Servers and clients take changed certificates without a restart, and keep the old ones while the
files cannot be used.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import warnings
from pathlib import Path

import pytest

from flintmq.errors import Unreachable
from flintmq.net.address import Address
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.net.channels.channel_pool import Channels, connect
from flintmq.net.servers.accepting import ServerLimits
from flintmq.net.servers.server import Server, serve_commands
from flintmq.net.tls import ClientTls, ServerTls, TlsMode
from flintmq.protocol.command import request
from support.net.certificates import Authority
from support.net.support import CALL_MS, HERE, Run, echo, until

SOON = ServerLimits(tls_watch_ms=20)


async def is_served(server: Server, authority: Authority, own: str | None = None) -> bool:
    """Whether a client that trusts only this authority is answered."""
    tls = ClientTls(ca_file=authority.ca_file, certificate_file=own)
    try:
        channel = await connect(str(server.address), tls=tls, timeout_ms=CALL_MS)
    except Unreachable:
        return False
    try:
        return (await channel.call(request(10, body=b"hello"), CALL_MS)).body == b"hello"
    except Unreachable:
        return False
    finally:
        await channel.close()


def replace_file(path: str, by: str | bytes) -> None:
    """As deployments do it: written beside, then renamed."""
    content = by if isinstance(by, bytes) else Path(by).read_bytes()
    beside = Path(f"{path}.new")
    beside.write_bytes(content)
    beside.replace(path)


@pytest.fixture
def other(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "other")


def test_a_changed_certificate_is_shown_from_then_on(
    run: Run, authority: Authority, other: Authority
) -> None:
    path = authority.sign("changing")

    async def main() -> None:
        async with await serve_commands(HERE, echo, tls=ServerTls(path), limits=SOON) as server:
            tls = ClientTls(ca_file=authority.ca_file)
            before = await connect(str(server.address), tls=tls, timeout_ms=CALL_MS)
            replace_file(path, other.sign("second"))
            await became_served(server, other)

            assert not await is_served(server, authority)
            reply = await before.call(request(10, body=b"still"), CALL_MS)
            assert reply.body == b"still"
            await before.close()

    run(main())


def test_a_fault_keeps_the_old_certificate_until_the_files_are_right(
    run: Run, authority: Authority, other: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    path = authority.sign("faulty")

    async def main() -> None:
        with caplog.at_level(logging.WARNING):
            async with await serve_commands(HERE, echo, tls=ServerTls(path), limits=SOON) as server:
                replace_file(path, b"no certificate")
                await until(lambda: "the last certificate stays" in caplog.text)
                assert await is_served(server, authority)

                replace_file(path, other.sign("third"))
                await became_served(server, other)
        assert caplog.text.count("the last certificate stays") == 1

    run(main())


def test_changed_authorities_of_clients_count(
    run: Run, authority: Authority, other: Authority, tmp_path: Path
) -> None:
    authorities = tmp_path / "clients.pem"
    authorities.write_bytes(Path(authority.ca_file).read_bytes())
    tls = ServerTls(
        authority.sign("asking"), client_ca_file=str(authorities), mode=TlsMode.ENFORCING
    )
    mine, theirs = authority.sign("mine"), other.sign("theirs")

    async def main() -> None:
        async with await serve_commands(HERE, echo, tls=tls, limits=SOON) as server:
            assert await is_served(server, authority, mine)
            assert not await is_served(server, authority, theirs)
            replace_file(str(authorities), other.ca_file)
            await became_served(server, authority, theirs)
            assert not await is_served(server, authority, mine)

    run(main())


async def became_served(server: Server, authority: Authority, own: str | None = None) -> None:
    for _ in range(500):
        if await is_served(server, authority, own):
            return
    raise AssertionError("the change was not taken")


def test_what_speaks_only_old_tls_is_told_apart(
    run: Run, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with await serve_commands(HERE, echo, tls=ServerTls(authority.sign("new"))) as server:
            await _speak_old_tls(server.address)
            await until(lambda: "TLS 1.2 is the oldest" in caplog.text)

    with caplog.at_level(logging.INFO):
        run(main())


async def _speak_old_tls(address: Address) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):  # an alert, or it is just closed
        await asyncio.open_connection(address.host, address.port, ssl=context)


async def _asked(channels: Channels | BlockingChannels, address: str) -> bool:
    """Whether a client is answered over a connection of its own to this address."""
    asked = request(10, body=b"hello")
    try:
        if isinstance(channels, Channels):
            reply = await channels.call(address, asked, CALL_MS)
        else:
            reply = await asyncio.to_thread(channels.call, address, asked, CALL_MS)
    except Unreachable:
        return False
    return reply.body == b"hello"


@pytest.fixture(params=[Channels, BlockingChannels])
def kind(request: pytest.FixtureRequest) -> type[Channels | BlockingChannels]:
    kind: type[Channels | BlockingChannels] = request.param
    return kind


async def _close(channels: Channels | BlockingChannels) -> None:
    if isinstance(channels, Channels):
        await channels.close()
    else:
        channels.close()


def test_a_client_shows_its_changed_certificate_to_the_next_server(
    run: Run,
    authority: Authority,
    other: Authority,
    kind: type[Channels | BlockingChannels],
) -> None:
    """Two servers take certificates of different authorities; the client meets one, then the
    other.  All clients, commands and Spark tasks connect through one of the two kinds.
    """
    own = authority.sign("renewed")
    asking = [
        ServerTls(authority.sign(name), client_ca_file=each.ca_file, mode=TlsMode.ENFORCING)
        for name, each in (("first", authority), ("second", other))
    ]

    async def main() -> None:
        first, second = [await serve_commands(HERE, echo, tls=each) for each in asking]
        channels = kind(tls=ClientTls(ca_file=authority.ca_file, certificate_file=own))
        async with first, second:
            assert await _asked(channels, str(first.address))
            replace_file(own, other.sign("its successor"))
            assert await _asked(channels, str(second.address))
            assert await _asked(channels, str(first.address)), "an open connection goes on"
            await _close(channels)

    run(main())


@pytest.mark.parametrize("part", ["certificate", "key", "authorities"])
def test_a_client_keeps_its_certificate_while_a_file_is_half_written(
    run: Run,
    authority: Authority,
    kind: type[Channels | BlockingChannels],
    part: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pem = Path(authority.sign("halved")).read_bytes()
    at = pem.index(b"-----BEGIN PRIVATE")
    whole = {
        "certificate": pem[:at],
        "key": pem[at:],
        "authorities": Path(authority.ca_file).read_bytes(),
    }
    paths = {name: str(tmp_path / f"{name}.pem") for name in whole}
    for name, content in whole.items():
        Path(paths[name]).write_bytes(content)
    tls = ClientTls(paths["authorities"], paths["certificate"], paths["key"])
    asking = ServerTls(
        authority.sign("asking for one"), client_ca_file=authority.ca_file, mode=TlsMode.ENFORCING
    )

    async def main() -> None:
        async with (
            await serve_commands(HERE, echo, tls=asking) as first,
            await serve_commands(HERE, echo, tls=asking) as second,
        ):
            channels = kind(tls=tls)
            assert await _asked(channels, str(first.address))
            replace_file(paths[part], whole[part][: len(whole[part]) // 2])
            assert await _asked(channels, str(second.address))
            await _close(channels)

    with caplog.at_level(logging.WARNING):
        run(main())
    assert caplog.text.count("the last certificate stays") == 1
    assert paths[part] in caplog.text or paths["certificate"] in caplog.text
