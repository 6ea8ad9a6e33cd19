"""`flintmq serve`: a name server and a broker in one process, or several brokers below it.

Once both answer and the broker is registered, one line goes to stdout:

    flintmq ready namesrv=HOST:PORT broker=HOST:PORT data=DIR

With gRPC clients their address, ``grpc=HOST:PORT``, stands before the directory.

What a flag says beats the environment, which beats the file, RocketMQ's broker.conf.  Exit
codes are those of `server_process`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from flintmq.cli.broker import Chosen, choose
from flintmq.cli.brokers.broker_shares import broker_shares, child_plans
from flintmq.cli.console.console_start import check_console, open_console
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
from flintmq.cli.shared.server_options import (
    AdminListen,
    Advertise,
    BrokerListen,
    BrokerName,
    Brokers,
    Config,
    Data,
    FastPort,
    FlushMode,
    Level,
    Metrics,
    NamesrvAdminListen,
    NamesrvListen,
)
from flintmq.cli.shared.server_process import (
    LogLevel,
    exit_with_error,
    is_everywhere,
    say,
    serve_until_told,
    stop_signal,
    stopping_or_failed,
)
from flintmq.cli.shared.tls_options import Mode, TlsCert, TlsClientCa, TlsKey, choose_tls, option
from flintmq.embedded.account_files import AccountPlan
from flintmq.embedded.grpc_door import GrpcPlan
from flintmq.errors import FlintError, InvalidSetting
from flintmq.nameserver.config import HERE as NAMESRV_HERE
from flintmq.nameserver.config import NameServerConfig
from flintmq.net.address import Address
from flintmq.net.tls import ServerTls, TlsMode
from flintmq.proxy.server_settings import require_grpc

if TYPE_CHECKING:
    from flintmq.embedded.servers import Servers

SETTINGS_FILE = "namesrv/kvConfig.json"
"""In the data directory: what people put over the wire into the name server."""

ConsoleListen = Annotated[
    str | None,
    option(
        "--console",
        "FLINTMQ_SERVE_CONSOLE",
        "HOST:PORT",
        "Also run the console there, as 127.0.0.1:8088; it reads only. With --tls-cert it speaks "
        "HTTPS with that certificate.",
    ),
]
ConsoleToken = Annotated[
    str | None,
    option(
        "--console-token",
        "FLINTMQ_CONSOLE_TOKEN",
        "TOKEN",
        "What people sign in with at the console; without it one is made. With access "
        "control they use accounts.",
    ),
]
GrpcListen = Annotated[
    str | None,
    option(
        "--grpc",
        "FLINTMQ_SERVE_GRPC",
        "HOST:PORT",
        "Also serve RocketMQ's gRPC clients there, as 127.0.0.1:8081.",
    ),
]


def serve(
    data: Data = None,
    namesrv_listen: NamesrvListen = None,
    broker_listen: BrokerListen = None,
    flush: FlushMode = None,
    advertise: Advertise = None,
    config: Config = None,
    name: BrokerName = None,
    brokers: Brokers = None,
    fast_port: FastPort = True,
    admin_listen: AdminListen = None,
    metrics: Metrics = None,
    namesrv_admin_listen: NamesrvAdminListen = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    tls_mode: Mode = TlsMode.PERMISSIVE,
    acl: AclMode = None,
    accounts: AccountsDirectory = None,
    first_user: FirstUser = None,
    audit: Audit = None,
    audit_all: AuditAll = False,
    is_open: Open = False,
    grpc: GrpcListen = None,
    console: ConsoleListen = None,
    console_token: ConsoleToken = None,
    log_level: Level = LogLevel.INFO,
) -> None:
    """Run a name server and a broker until they are told to stop.

    Examples:
        flintmq serve
        flintmq serve --grpc 127.0.0.1:8081
        flintmq serve --brokers 4
        flintmq serve --data /var/lib/flintmq --broker-listen 0.0.0.0:10911 --advertise mq.example
    """
    try:
        chosen = choose(
            data=data,
            listen=broker_listen,
            name=name,
            flush=flush,
            advertise=advertise,
            file=config,
            fast_port=fast_port,
            admin_listen=admin_listen,
            metrics=metrics,
        )
        if not chosen.config.role.is_master:
            reason = "serve runs a name server and a master: use flintmq broker for a slave"
            raise InvalidSetting("brokerRole", chosen.config.role.value, reason)
        namesrv = NAMESRV_HERE if namesrv_listen is None else Address.parse(namesrv_listen)
        admins = None if namesrv_admin_listen is None else Address.parse(namesrv_admin_listen)
        tls = choose_tls(tls_cert, tls_key, tls_client_ca, tls_mode)
        accounts_of = (acl, accounts, first_user, chosen.directory, chosen.settings)
        plan = choose_accounts(*accounts_of, audit=audit, audits_all=audit_all)
        door = _grpc_plan(grpc, chosen, tls)
        shown = _console_listen(console, console_token, tls, plan)
        where = _Where(namesrv, admins, shown, door)
        refuse_if_open([*where.open_listens, *chosen.listens], tls, plan, is_open=is_open)
        shares = broker_shares(chosen, brokers or chosen.settings.brokers or 1)
    except FlintError as error:
        exit_with_error(error)
    if chosen.namesrv is not None:
        say(f"{config}: namesrvAddr is not used: serve runs a name server of its own")
    serve_until_told(_serve(chosen, shares, where, tls, plan, console_token, log_level), log_level)


def _grpc_plan(text: str | None, chosen: Chosen, tls: ServerTls | None) -> GrpcPlan | None:
    """Where gRPC clients are served, if they are."""
    if text is None:
        return None
    require_grpc()
    from flintmq.broker.listening import limits_of  # it takes a while to load

    host = None if chosen.advertise is None else chosen.advertise.host
    return GrpcPlan(
        listen=Address.parse(text),
        tls=tls,
        advertise=host,
        cluster=chosen.config.cluster,
        connections=limits_of(chosen.config),
    )


def _console_listen(
    text: str | None, token: str | None, tls: ServerTls | None, plan: AccountPlan | None
) -> Address | None:
    """Where the console listens; refuses what it could not speak to."""
    if text is None:
        return None
    listen = Address.parse(text)
    alone = "run flintmq console beside it"
    if tls is not None and tls.mode is TlsMode.ENFORCING:
        raise InvalidSetting("--console", text, f"TLS is enforced: {alone}, with --tls-ca")
    if plan is not None and token is not None:
        reason = "access control is on: people sign in with accounts"
        raise InvalidSetting("--console-token", "…", reason)
    is_secure = tls is not None
    check_console(listen, token, (), with_accounts=plan is not None, is_secure=is_secure)
    return listen


class _Where(NamedTuple):
    """Where what runs beside the broker listens."""

    namesrv: Address
    namesrv_admins: Address | None
    console: Address | None
    grpc: GrpcPlan | None

    @property
    def open_listens(self) -> list[Address]:
        """Where clients and admins connect; the console sees to itself."""
        grpc = None if self.grpc is None else self.grpc.listen
        return [each for each in (self.namesrv, self.namesrv_admins, grpc) if each is not None]


async def _serve(
    chosen: Chosen,
    shares: Sequence[Chosen],
    listens: _Where,
    tls: ServerTls | None,
    plan: AccountPlan | None,
    token: str | None,
    level: LogLevel,
) -> None:
    # only who serves waits for them to load
    from flintmq.embedded.servers import BrokerPlan, NameServerPlan, Servers

    stopping = stop_signal()
    inside = shares if len(shares) == 1 else ()  # several run in processes of their own
    servers = await Servers.start(
        [
            BrokerPlan(
                directory=each.directory,
                config=each.config,
                listen=each.listen,
                advertise=each.advertise,
                admin_listen=each.admin_listen,
            )
            for each in inside
        ],
        [
            NameServerPlan(
                config=NameServerConfig(listen=listens.namesrv),
                settings_file=chosen.directory / SETTINGS_FILE,
                admin_listen=listens.namesrv_admins,
            )
        ],
        tls=tls,
        accounts=plan,
        metrics=chosen.metrics,
        grpc=listens.grpc,
    )
    try:
        async with _brokers(servers, shares, tls, plan, level) as brokers:
            where = servers.namesrv[0]
            if is_everywhere(where.host):  # nobody connects to that
                where = replace(where, host=Address.parse(brokers.addresses[0]).host)
            grpc = "" if servers.grpc is None else f" grpc={servers.grpc.address}"
            ready = (
                f"flintmq ready namesrv={where} broker={','.join(brokers.addresses)}{grpc} "
                f"data={chosen.directory}"
            )
            asked = servers.name_servers[0].admin_at or str(where)
            at, guarded = brokers.admin_at, plan is not None
            async with _console(listens.console, token, asked, at, tls, guarded=guarded):
                typer.echo(ready)
                await stopping_or_failed(stopping, brokers.failed)
    finally:
        await servers.stop()


class _Brokers(NamedTuple):
    """The brokers that run, here or in processes of their own."""

    addresses: list[str]
    failed: asyncio.Event
    admin_at: str | None = None


@asynccontextmanager
async def _brokers(
    servers: Servers,
    shares: Sequence[Chosen],
    tls: ServerTls | None,
    plan: AccountPlan | None,
    level: LogLevel,
) -> AsyncIterator[_Brokers]:
    """The broker of this process, or a group of processes for as long as it is wanted."""

    def reserve(name: str, address: str) -> None:
        for server in servers.name_servers:
            server.state.reserve(name, address)

    if len(shares) == 1:
        ((name, broker),) = servers.brokers.items()
        reserve(name, broker.state.address)
        yield _Brokers([broker.state.address], broker.failed, broker.listeners.admin_at)
        return
    from flintmq.cli.brokers.broker_group import BrokerGroup

    group = await BrokerGroup.start(child_plans(servers, shares, tls, plan, level), reserve)
    if servers.metrics is not None:
        servers.metrics.sources.append(group.source())
    try:
        yield _Brokers(group.addresses, asyncio.Event())
    finally:
        await group.stop()


@asynccontextmanager
async def _console(
    listen: Address | None,
    token: str | None,
    namesrv: str,
    admin_at: str | None,
    tls: ServerTls | None,
    *,
    guarded: bool,
) -> AsyncIterator[None]:
    """The console beside the servers, if it is wanted."""
    if listen is None:
        yield
        return
    from flintmq.client.admin_methods import AdminSettings
    from flintmq.console.app import ConsoleSettings

    client: AdminSettings = {"namesrv": namesrv}
    if admin_at is not None:
        client["admin_at"] = admin_at
    settings = ConsoleSettings(client=client, token=token, with_accounts=guarded, tls=tls)
    async with open_console(settings, listen) as running:
        say(f"the console is at {running.link}")
        yield
