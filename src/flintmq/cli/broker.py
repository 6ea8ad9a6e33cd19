"""`flintmq broker`: a broker as a process of its own; also the settings `serve` shares with it.

What a flag says beats the environment, which beats the file.  The file is RocketMQ's own
broker.conf.  Exit codes are those of `server_process`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import typer

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.config.config_file import BrokerSettings, read_broker_conf
from flintmq.cli.shared.account_options import (
    AccountsDirectory,
    AclMode,
    Audit,
    AuditAll,
    FirstUser,
    Open,
    choose_accounts,
    refuse_if_open,
)
from flintmq.cli.shared.help_page import SERVER_EXIT_CODES
from flintmq.cli.shared.profiles import FILE_VARIABLE
from flintmq.cli.shared.server_options import (
    BROKER_HERE,
    DATA,
    AdminListen,
    Advertise,
    BrokerId,
    BrokerName,
    Config,
    Data,
    FastPort,
    FlushMode,
    HaMaster,
    HaPort,
    Level,
    Listen,
    Metrics,
    Namesrv,
    ReplicaOptions,
    Role,
    Scrub,
)
from flintmq.cli.shared.server_process import (
    LogLevel,
    check_metrics,
    choose_advertised,
    exit_with_error,
    is_loopback,
    say,
    serve_until_told,
    stop_signal,
    stopping_or_failed,
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
from flintmq.embedded.account_files import AccountFiles, AccountPlan
from flintmq.errors import FlintError, InvalidSetting
from flintmq.nameserver.config import HERE as NAMESRV_HERE
from flintmq.net.address import Address, parse_addresses
from flintmq.net.tls import ClientTls, ServerTls, TlsMode
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import Flush

if TYPE_CHECKING:
    from flintmq.broker.server import BrokerServer
    from flintmq.metrics.pages import MetricsServer

WhenReady: TypeAlias = "Callable[[BrokerServer, MetricsServer | None], None]"


@dataclass(frozen=True, slots=True)
class Chosen:
    """How to run a broker, from all sources."""

    directory: Path
    config: BrokerConfig
    listen: Address
    advertise: Address | None
    namesrv: tuple[Address, ...] | None
    """As the file says, if it does."""
    settings: BrokerSettings
    """All that the file says."""
    admin_listen: Address | None = None
    metrics: Address | None = None
    """Where metrics are served, if they are."""

    @property
    def listens(self) -> list[Address]:
        """Every address that is listened on, but for the fast port."""
        return [self.listen] if self.admin_listen is None else [self.listen, self.admin_listen]


def choose(
    *,
    data: Path | None,
    listen: str | None,
    name: str | None,
    flush: Flush | None,
    advertise: str | None,
    file: Path | None,
    fast_port: bool = True,
    admin_listen: str | None = None,
    replicas: ReplicaOptions | None = None,
    metrics: str | None = None,
) -> Chosen:
    """Settings of all sources, the stronger over the weaker."""
    file = file or _file_of_old_variable()
    settings = BrokerSettings() if file is None else _read(file)
    config = replace(settings.config, fast_port=fast_port)
    if name is not None:
        if not name.strip():
            raise InvalidSetting("name", name, "it must not be empty")
        config = replace(config, broker_name=name)
    if flush is not None:
        config = replace(config, store=replace(config.store, flush=flush))
    if replicas is not None:
        config = replicas.applied(config)
    if listen is not None:
        where = Address.parse(listen)
    else:
        port = BROKER_HERE.port if settings.listen_port is None else settings.listen_port
        where = Address(settings.listen_host or BROKER_HERE.host, port)
    told = choose_advertised(where, advertise or _bracketed(settings.advertise))
    if told is not None and is_loopback(where.host) and not is_loopback(told.host):
        say(f"warning: clients are told {told.host}, but {where} is reached from this machine only")
    directory = (data or settings.directory or DATA).absolute()
    admin = None if admin_listen is None else Address.parse(admin_listen)
    watched = settings.metrics_listen if metrics is None else Address.parse(metrics)
    if watched is not None:
        check_metrics(watched)
    return Chosen(directory, config, where, told, settings.namesrv, settings, admin, watched)


app = typer.Typer(
    invoke_without_command=True, subcommand_metavar="[COMMAND]", epilog=SERVER_EXIT_CODES
)


@app.callback()
def broker(
    context: typer.Context,
    data: Data = None,
    listen: Listen = None,
    namesrv: Namesrv = None,
    name: BrokerName = None,
    flush: FlushMode = None,
    advertise: Advertise = None,
    config: Config = None,
    fast_port: FastPort = True,
    admin_listen: AdminListen = None,
    role: Role = None,
    broker_id: BrokerId = None,
    ha_port: HaPort = None,
    ha_master: HaMaster = None,
    scrub: Scrub = None,
    metrics: Metrics = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    tls_mode: Mode = TlsMode.PERMISSIVE,
    namesrv_ca: NamesrvCa = None,
    namesrv_cert: NamesrvCert = None,
    namesrv_key: NamesrvKey = None,
    acl: AclMode = None,
    accounts: AccountsDirectory = None,
    first_user: FirstUser = None,
    audit: Audit = None,
    audit_all: AuditAll = False,
    is_open: Open = False,
    log_level: Level = LogLevel.INFO,
) -> None:
    """Run a broker until it is told to stop; with a command, ask one that runs.

    Examples:
        flintmq broker --namesrv 127.0.0.1:9876 --data /var/lib/flintmq
        flintmq broker --namesrv 127.0.0.1:9876 --role SLAVE --id 1 --listen 127.0.0.1:20911
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    try:
        chosen = choose(
            data=data,
            listen=listen,
            name=name,
            flush=flush,
            advertise=advertise,
            file=config,
            fast_port=fast_port,
            admin_listen=admin_listen,
            replicas=ReplicaOptions(role, broker_id, ha_port, ha_master, scrub),
            metrics=metrics,
        )
        tls = choose_tls(tls_cert, tls_key, tls_client_ca, tls_mode)
        servers = parse_addresses(namesrv) if namesrv else chosen.namesrv or (NAMESRV_HERE,)
        client_tls = choose_client_tls(namesrv_ca, namesrv_cert, namesrv_key, "--namesrv")
        accounts_of = (acl, accounts, first_user, chosen.directory, chosen.settings)
        plan = choose_accounts(*accounts_of, audit=audit, audits_all=audit_all)
        refuse_if_open(chosen.listens, tls, plan, is_open=is_open)
        _refuse_several(chosen.settings)
    except FlintError as error:
        exit_with_error(error)
    serve_until_told(serve_broker(chosen, servers, tls, client_tls, plan), log_level)


def _refuse_options(context: typer.Context) -> None:
    """Refuse options of a broker to be run, given with a command that asks a running one."""
    for each in context.command.params:
        source = context.get_parameter_source(each.name or "")
        if source is not None and source.name == "COMMANDLINE":
            command = f"{context.command_path} {context.invoked_subcommand}"
            raise typer.BadParameter(f"{each.opts[0]} is not for '{command}'")


def _refuse_several(settings: BrokerSettings) -> None:
    if (settings.brokers or 1) > 1:
        reason = "flintmq serve runs several brokers, flintmq broker one"
        raise InvalidSetting("brokers", str(settings.brokers), reason)


async def serve_broker(
    chosen: Chosen,
    namesrv: tuple[Address, ...],
    tls: ServerTls | None,
    client_tls: ClientTls | None,
    plan: AccountPlan | None,
    *,
    stopping: asyncio.Event | None = None,
    ready: WhenReady | None = None,
) -> None:
    """Run a broker until a signal comes or ``stopping`` is set; ``ready`` hears of each start."""
    # only who serves waits for them to load
    from flintmq.broker.monitoring.broker_source import broker_source
    from flintmq.broker.server import BrokerServer
    from flintmq.embedded.servers import with_same_ports
    from flintmq.metrics.pages import serve_metrics

    stopping = stopping or stop_signal()
    files = None if plan is None else AccountFiles(plan)
    accounts = None if files is None else files.open()
    watch = None if files is None else asyncio.ensure_future(files.watch())
    pages = None
    changed = True
    try:
        while changed and not stopping.is_set():  # with each role it starts again
            server = await BrokerServer.start(
                chosen.directory,
                chosen.config,
                listen=chosen.listen,
                advertise=chosen.advertise,
                namesrv=namesrv,
                tls=tls,
                client_tls=client_tls,
                accounts=accounts,
                inner=None if plan is None else plan.inner,
                auditor=None if files is None else files.auditor,
                admin_listen=chosen.admin_listen,
            )
            try:
                if pages is not None:
                    pages.sources = [broker_source(server)]
                elif chosen.metrics is not None:
                    pages = await serve_metrics(chosen.metrics, [broker_source(server)])
                await server.registered.wait()
                if ready is None:
                    line = f"flintmq ready broker={server.state.address} data={chosen.directory}"
                    typer.echo(line)
                else:
                    ready(server, pages)
                await stopping_or_failed(stopping, server.failed, server.roles.changed)
                changed = server.roles.changed.is_set()
                config = with_same_ports(chosen.config, chosen.listen, server)
                chosen = replace(chosen, config=config, listen=server.address)
            finally:
                await server.stop()
    finally:
        if watch is not None:
            watch.cancel()
        if pages is not None:
            await pages.stop()
        if files is not None:
            files.close()


def _read(file: Path) -> BrokerSettings:
    with Disk() as disk:
        settings, warnings = read_broker_conf(disk.read_all(file))
    for warning in warnings:
        say(f"{file}: {warning}")
    return settings


def _file_of_old_variable() -> Path | None:
    """FLINTMQ_CONFIG once named a broker.conf; a file of clusters, which it names now, is TOML."""
    text = os.environ.get(FILE_VARIABLE, "")
    if not text or text.endswith(".toml"):
        return None
    say(f"warning: {FILE_VARIABLE} names a file of clusters; use FLINTMQ_BROKER_CONFIG for {text}")
    return Path(text)


def _bracketed(host: str | None) -> str | None:
    return f"[{host}]" if host is not None and ":" in host else host
