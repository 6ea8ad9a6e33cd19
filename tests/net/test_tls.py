"""A client trusts nobody it was not told to, and one port serves plain and encrypted peers."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from flintmq.errors import InvalidSetting, Unreachable
from flintmq.net.blocking import blocking
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.channel_pool import connect
from flintmq.net.limits import ChannelLimits
from flintmq.net.servers.accepting import ServerLimits
from flintmq.net.servers.server import Server, serve_commands
from flintmq.net.tls import ClientTls, ServerTls, TlsMode
from flintmq.protocol.command import Command, answer, request
from flintmq.protocol.wire import encode_command
from support.net.certificates import Authority, self_signed
from support.net.support import (
    CALL_MS,
    HERE,
    PATIENCE_S,
    Run,
    bare_client,
    echo,
    other_tasks,
    until,
)

ASK = request(10, body=b"hello")
Ask: TypeAlias = Callable[[Server, ClientTls | None], Awaitable[Command]]


async def ask_async(server: Server, tls: ClientTls | None) -> Command:
    channel = await connect(str(server.address), tls=tls, timeout_ms=CALL_MS)
    try:
        return await channel.call(ASK, CALL_MS)
    finally:
        await channel.close()


async def ask_blocking(server: Server, tls: ClientTls | None) -> Command:
    def ask() -> Command:
        with blocking.connect(str(server.address), tls=tls, timeout_ms=CALL_MS) as channel:
            return channel.call(ASK, CALL_MS)

    return await asyncio.get_running_loop().run_in_executor(None, ask)


both = pytest.mark.parametrize("ask", [ask_async, ask_blocking], ids=["asyncio", "blocking"])


@both
def test_a_trusted_server_is_spoken_to(run: Run, authority: Authority, ask: Ask) -> None:
    async def main() -> None:
        async with await serve_commands(
            HERE, echo, tls=ServerTls(authority.sign("good"))
        ) as server:
            reply = await ask(server, ClientTls(ca_file=authority.ca_file))

            assert reply.body == b"hello"

    run(main())


@both
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("other host", "TLS certificate is for another host: .*server_name"),
        ("expired", "TLS certificate not trusted: certificate has expired"),
        ("self-signed", "TLS certificate not trusted: self.signed certificate.*ca_file"),
        (
            "other authority",
            "TLS certificate not trusted: .*ca_file or --tls-ca names the authority",
        ),
    ],
)
def test_a_server_that_cannot_prove_itself_is_refused_with_the_setting_that_helps(
    run: Run, authority: Authority, tmp_path: Path, ask: Ask, kind: str, reason: str
) -> None:
    certificate_file = {
        "other host": lambda: authority.sign("other", hosts=("broker.example",)),
        "expired": lambda: authority.sign("expired", days=-1),
        "self-signed": lambda: self_signed(tmp_path, "self"),
        "other authority": lambda: Authority(tmp_path, "stranger").sign("strange"),
    }[kind]()

    async def main() -> None:
        async with await serve_commands(HERE, echo, tls=ServerTls(certificate_file)) as server:
            with pytest.raises(Unreachable, match=reason) as caught:
                await ask(server, ClientTls(ca_file=authority.ca_file))

            assert caught.value.address == str(server.address)
            await until(lambda: not server.channels and not server._admitting)

    run(main())


@both
def test_the_expected_name_can_be_set(run: Run, authority: Authority, ask: Ask) -> None:
    async def main() -> None:
        certificate_file = authority.sign("named", hosts=("broker.example",))
        tls = ClientTls(ca_file=authority.ca_file, server_name="broker.example")
        async with await serve_commands(HERE, echo, tls=ServerTls(certificate_file)) as server:
            assert (await ask(server, tls)).body == b"hello"

    run(main())


@both
def test_without_verification_any_certificate_will_do(run: Run, tmp_path: Path, ask: Ask) -> None:
    async def main() -> None:
        tls = ServerTls(self_signed(tmp_path, "self"))
        async with await serve_commands(HERE, echo, tls=tls) as server:
            assert (await ask(server, ClientTls(verify=False))).body == b"hello"

    run(main())


@both
def test_a_server_may_ask_for_the_certificate_of_its_clients(
    run: Run, authority: Authority, ask: Ask
) -> None:
    async def main() -> None:
        tls = ServerTls(
            authority.sign("mutual"), client_ca_file=authority.ca_file, mode=TlsMode.ENFORCING
        )
        known = ClientTls(
            ca_file=authority.ca_file, certificate_file=authority.sign("client", hosts=())
        )
        async with await serve_commands(HERE, echo, tls=tls) as server:
            assert (await ask(server, known)).body == b"hello"

            with pytest.raises(Unreachable, match="certificate_file or --tls-cert sets one"):
                await ask(server, ClientTls(ca_file=authority.ca_file))

            with pytest.raises(Unreachable):
                await ask(server, None)

    run(main())


@pytest.mark.parametrize("mode", [TlsMode.PERMISSIVE, TlsMode.OFF])
def test_no_server_asks_for_certificates_and_serves_those_without(
    authority: Authority, mode: TlsMode
) -> None:
    with pytest.raises(InvalidSetting, match="--tls-mode enforcing"):
        ServerTls(authority.sign("lax"), client_ca_file=authority.ca_file, mode=mode)


@both
def test_one_permissive_port_serves_both_kinds(run: Run, authority: Authority, ask: Ask) -> None:
    async def main() -> None:
        async with await serve_commands(
            HERE, echo, tls=ServerTls(authority.sign("both"))
        ) as server:
            plain = await ask(server, None)
            secure = await ask(server, ClientTls(ca_file=authority.ca_file))

            assert (plain.body, secure.body) == (b"hello", b"hello")

    run(main())


@both
def test_an_enforcing_server_refuses_plain_peers(
    run: Run, authority: Authority, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        tls = ServerTls(authority.sign("enforcing"), mode=TlsMode.ENFORCING)
        async with await serve_commands(HERE, echo, tls=tls) as server:
            with (
                caplog.at_level(logging.INFO, logger="flintmq.net.servers.server"),
                pytest.raises(Unreachable, match=r"reset by the peer|peer closed"),
            ):
                await ask(server, None)

            assert "does not speak TLS, and the mode is enforcing" in caplog.text
            reply = await ask(server, ClientTls(ca_file=authority.ca_file))
            assert reply.body == b"hello"

    run(main())


@both
def test_a_server_with_tls_off_is_told_from_a_broken_one(
    run: Run, authority: Authority, ask: Ask
) -> None:
    async def main() -> None:
        for tls in (None, ServerTls(authority.sign("off"), mode=TlsMode.OFF)):
            async with await serve_commands(HERE, echo, tls=tls) as server:
                with pytest.raises(Unreachable, match=r"(may|does) not speak TLS"):
                    await ask(server, ClientTls(ca_file=authority.ca_file))

    run(main())


def test_the_first_bytes_of_a_peer_may_come_slowly(run: Run, authority: Authority) -> None:
    async def main() -> None:
        tls = ServerTls(authority.sign("slow"))
        async with (
            await serve_commands(HERE, echo, tls=tls) as server,
            bare_client(server.address) as peer,
        ):
            for byte in encode_command(ASK):
                await peer.send(bytes([byte]))

            assert (await peer.command()).body == b"hello"

    run(main())


def test_peers_that_send_nothing_hold_up_nobody(run: Run, authority: Authority) -> None:
    async def main() -> None:
        tls, limits = ServerTls(authority.sign("patient")), ServerLimits(handshake_ms=600_000)
        server = await serve_commands(HERE, echo, tls=tls, limits=limits)
        async with bare_client(server.address), bare_client(server.address) as half:
            await half.send(b"\x16\x03\x01")
            await until(lambda: len(server._admitting) == 2)

            reply = await ask_async(server, ClientTls(ca_file=authority.ca_file))

            assert reply.body == b"hello"
            assert len(server._admitting) == 2
            async with asyncio.timeout(PATIENCE_S):
                await server.stop()
            assert not other_tasks()

    run(main())


@pytest.mark.parametrize("first", [b"", b"\x16\x03\x01"])
def test_a_handshake_has_a_deadline(
    run: Run, authority: Authority, first: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        tls, limits = ServerTls(authority.sign("hasty")), ServerLimits(handshake_ms=30)
        async with (
            await serve_commands(HERE, echo, tls=tls, limits=limits) as server,
            bare_client(server.address) as peer,
        ):
            with caplog.at_level(logging.INFO, logger="flintmq.net.servers.server"):
                await peer.send(first)

                assert await peer.closed()

            await until(lambda: not server._admitting)
            assert "not admitted: timed out" in caplog.text

    run(main())


def test_a_peer_that_leaves_before_its_first_byte_is_forgotten(
    run: Run, authority: Authority
) -> None:
    async def main() -> None:
        async with await serve_commands(
            HERE, echo, tls=ServerTls(authority.sign("left"))
        ) as server:
            async with bare_client(server.address):
                await until(lambda: server._admitting)
            await until(lambda: not server._admitting)

            assert not server.channels

    run(main())


def test_answers_over_tls_wait_for_a_peer_that_does_not_read(
    run: Run, authority: Authority
) -> None:
    async def main() -> None:
        limits = ChannelLimits(write_high_bytes=300_000, write_low_bytes=100_000)

        def large(asked: Command, _channel: Channel) -> Command:
            return answer(asked, 0, body=bytes(500_000))

        class Count(asyncio.Protocol):
            def __init__(self) -> None:
                self.received_bytes = 0

            def data_received(self, data: bytes) -> None:
                self.received_bytes += len(data)

        async with await serve_commands(
            HERE, large, tls=ServerTls(authority.sign("tight")), channel_limits=limits
        ) as server:
            transport, client = await asyncio.get_running_loop().create_connection(
                Count,
                server.address.host,
                server.address.port,
                ssl=ClientTls(ca_file=authority.ca_file).context(),
            )
            await until(lambda: server.channels)
            (accepted,) = server.channels
            transport.pause_reading()
            asked = 0
            while not accepted._full:
                transport.write(encode_command(Command(10, asked)))
                asked += 1
                for _ in range(10):
                    await asyncio.sleep(0)
                assert asked < 1_000

            assert accepted.unsent_bytes < 300_000 + 3 * 500_000

            transport.resume_reading()
            await until(lambda: client.received_bytes > asked * 500_000)
            await until(lambda: not accepted._full)
            transport.close()
            await until(lambda: not server.channels)

    run(main())


def test_large_bodies_pass_in_both_directions(run: Run, authority: Authority) -> None:
    async def main() -> None:
        body = bytes(range(256)) * 40_000
        async with await serve_commands(HERE, echo, tls=ServerTls(authority.sign("big"))) as server:
            tls = ClientTls(ca_file=authority.ca_file)
            channel = await connect(str(server.address), tls=tls)

            replies = await asyncio.gather(
                *(channel.call(request(10, body=body), CALL_MS) for _ in range(2))
            )

            assert [reply.body == body for reply in replies] == [True, True]
            await channel.close()

    run(main())


def test_contexts_speak_nothing_older_than_tls_1_2_and_verify(authority: Authority) -> None:
    client = ClientTls(ca_file=authority.ca_file).context()
    server = ServerTls(authority.sign("modern")).context()

    assert client.minimum_version == server.minimum_version == ssl.TLSVersion.TLSv1_2
    assert client.check_hostname
    assert client.verify_mode == ssl.CERT_REQUIRED


def test_the_authorities_of_the_system_are_trusted_when_none_is_named() -> None:
    context = ClientTls().context()

    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname


def test_files_that_cannot_be_used_are_named(authority: Authority, tmp_path: Path) -> None:
    no_pem = tmp_path / "notes.txt"
    no_pem.write_text("not a certificate")

    with pytest.raises(InvalidSetting, match="ca_file '/no/such/file': No such file"):
        ClientTls(ca_file="/no/such/file").context()
    with pytest.raises(InvalidSetting, match="cannot be read as PEM"):
        ClientTls(ca_file=str(no_pem)).context()
    with pytest.raises(InvalidSetting, match="certificate_file"):
        ServerTls(str(no_pem)).context()
    with pytest.raises(InvalidSetting, match="client_ca_file"):
        ServerTls(
            authority.sign("fine"), client_ca_file=str(no_pem), mode=TlsMode.ENFORCING
        ).context()


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(ClientTls(key_password="secret"))
    assert "secret" not in repr(ServerTls("file", key_password="secret"))
