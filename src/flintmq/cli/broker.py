"""`flintmq broker`: a broker as a process of its own; also the settings `serve` shares with it.

What a flag says beats the environment, which beats the file.  The file is RocketMQ's own
broker.conf.  Exit codes are those of `server_process`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import typer

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.config.config_file import BrokerSettings, read_broker_conf
from flintmq.cli.shared.server_options import (
    BROKER_HERE,
    DATA,
    Advertise,
    BrokerName,
    Config,
    Data,
    FastPort,
    FlushMode,
    Level,
    Listen,
    Namesrv,
)
from flintmq.cli.shared.server_process import (
    LogLevel,
    choose_advertised,
    exit_with_error,
    is_loopback,
    say,
    serve_until_told,
    stop_signal,
    stopping_or_failed,
    warn_if_open,
)
from flintmq.cli.shared.tls_options import (
    Mode,
    NamesrvCa,
    NamesrvCert,
    NamesrvKey,
    TlsCert,
    TlsClientCa,
    TlsKey,
    choose_client_tls,
    choose_tls,
)
from flintmq.errors import FlintError, InvalidSetting
from flintmq.nameserver.config import HERE as NAMESRV_HERE
from flintmq.net.address import Address, parse_addresses
from flintmq.net.tls import ClientTls, ServerTls, TlsMode
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import Flush


@dataclass(frozen=True, slots=True)
class Chosen:
    """How to run a broker, from all sources."""

    directory: Path
    config: BrokerConfig
    listen: Address
    advertise: Address | None
    namesrv: tuple[Address, ...] | None
    """As the file says, if it does."""


def choose(
    *,
    data: Path | None,
    listen: str | None,
    name: str | None,
    flush: Flush | None,
    advertise: str | None,
    file: Path | None,
    fast_port: bool = True,
) -> Chosen:
    """Settings of all sources, the stronger over the weaker."""
    settings = BrokerSettings() if file is None else _read(file)
    config = replace(settings.config, fast_port=fast_port)
    if name is not None:
        if not name.strip():
            raise InvalidSetting("name", name, "it must not be empty")
        config = replace(config, broker_name=name)
    if flush is not None:
        config = replace(config, store=replace(config.store, flush=flush))
    if listen is not None:
        where = Address.parse(listen)
    else:
        port = BROKER_HERE.port if settings.listen_port is None else settings.listen_port
        where = Address(settings.listen_host or BROKER_HERE.host, port)
    told = choose_advertised(where, advertise or _bracketed(settings.advertise))
    if told is not None and is_loopback(where.host) and not is_loopback(told.host):
        say(f"warning: clients are told {told.host}, but {where} is reached from this machine only")
    directory = (data or settings.directory or DATA).absolute()
    return Chosen(directory, config, where, told, settings.namesrv)


def broker(
    data: Data = None,
    listen: Listen = None,
    namesrv: Namesrv = None,
    name: BrokerName = None,
    flush: FlushMode = None,
    advertise: Advertise = None,
    config: Config = None,
    fast_port: FastPort = True,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    tls_mode: Mode = TlsMode.PERMISSIVE,
    namesrv_ca: NamesrvCa = None,
    namesrv_cert: NamesrvCert = None,
    namesrv_key: NamesrvKey = None,
    log_level: Level = LogLevel.INFO,
) -> None:
    """Run a broker until it is told to stop."""
    try:
        chosen = choose(
            data=data,
            listen=listen,
            name=name,
            flush=flush,
            advertise=advertise,
            file=config,
            fast_port=fast_port,
        )
        tls = choose_tls(tls_cert, tls_key, tls_client_ca, tls_mode)
        servers = chosen.namesrv or (NAMESRV_HERE,)
        if namesrv is not None:
            servers = parse_addresses(namesrv)
        client_tls = choose_client_tls(namesrv_ca, namesrv_cert, namesrv_key)
    except FlintError as error:
        exit_with_error(error)
    warn_if_open([chosen.listen], tls)
    serve_until_told(_serve(chosen, servers, tls, client_tls), log_level)


async def _serve(
    chosen: Chosen,
    namesrv: tuple[Address, ...],
    tls: ServerTls | None,
    client_tls: ClientTls | None,
) -> None:
    from flintmq.broker.server import BrokerServer  # only who serves waits for it to load

    stopping = stop_signal()
    server = await BrokerServer.start(
        chosen.directory,
        chosen.config,
        listen=chosen.listen,
        advertise=chosen.advertise,
        namesrv=namesrv,
        tls=tls,
        client_tls=client_tls,
    )
    try:
        await server.registered.wait()
        typer.echo(f"flintmq ready broker={server.state.address} data={chosen.directory}")
        await stopping_or_failed(stopping, server.failed)
    finally:
        await server.stop()


def _read(file: Path) -> BrokerSettings:
    with Disk() as disk:
        settings, warnings = read_broker_conf(disk.read_all(file))
    for warning in warnings:
        say(f"{file}: {warning}")
    return settings


def _bracketed(host: str | None) -> str | None:
    return f"[{host}]" if host is not None and ":" in host else host
