"""`flintmq proxy`: RocketMQ's gRPC service as a process of its own, in front of brokers.

    flintmq ready grpc=HOST:PORT

is the line on stdout once clients are served.  Exit codes are those of `server_process`.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from flintmq.cli.shared.account_options import (
    AccountsDirectory,
    AclMode,
    Audit,
    AuditAll,
    Open,
    choose_accounts,
    refuse_if_open,
)
from flintmq.cli.shared.server_options import Level, Namesrv
from flintmq.cli.shared.server_process import (
    LogLevel,
    check_metrics,
    exit_with_error,
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
    option,
)
from flintmq.client.engine.client_config import ClientConfig
from flintmq.embedded.account_files import AccountFiles, AccountPlan
from flintmq.embedded.grpc_door import GrpcPlan, open_door
from flintmq.errors import FlintError
from flintmq.metrics.pages import serve_metrics
from flintmq.nameserver.config import HERE as NAMESRV_HERE
from flintmq.net.address import Address, parse_host
from flintmq.net.tls import TlsMode
from flintmq.proxy.server_settings import require_grpc

GRPC_HERE = Address("127.0.0.1", 8081)
"""RocketMQ's own port, on loopback unless told otherwise."""

GrpcListen = Annotated[
    str | None,
    option(
        "--listen",
        "FLINTMQ_PROXY_LISTEN",
        "HOST:PORT",
        "Where gRPC clients connect, with TLS or without.",
        default=str(GRPC_HERE),
    ),
]
GrpcAdvertise = Annotated[
    str | None,
    option(
        "--advertise",
        "FLINTMQ_PROXY_ADVERTISE",
        "HOST",
        "What clients are told to connect to that name no address themselves.",
    ),
]
ProxyMetrics = Annotated[
    str | None,
    option(
        "--metrics",
        "FLINTMQ_PROXY_METRICS",
        "HOST:PORT",
        "Serve /metrics for Prometheus, /healthz and /readyz here; needs flintmq[metrics].",
    ),
]
AccessKey = Annotated[
    str | None,
    option(
        "--access-key", "FLINTMQ_ACCESS_KEY", "KEY", "The account the brokers know the proxy by."
    ),
]
SecretKey = Annotated[
    str | None,
    option(
        "--secret-key",
        "FLINTMQ_SECRET_KEY",
        "SECRET",
        "Its secret; better given by the variable, which others cannot list.",
    ),
]


def proxy(
    listen: GrpcListen = None,
    namesrv: Namesrv = None,
    advertise: GrpcAdvertise = None,
    access_key: AccessKey = None,
    secret_key: SecretKey = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    tls_mode: Mode = TlsMode.PERMISSIVE,
    namesrv_ca: NamesrvCa = None,
    namesrv_cert: NamesrvCert = None,
    namesrv_key: NamesrvKey = None,
    acl: AclMode = None,
    accounts: AccountsDirectory = None,
    audit: Audit = None,
    audit_all: AuditAll = False,
    metrics: ProxyMetrics = None,
    is_open: Open = False,
    log_level: Level = LogLevel.INFO,
) -> None:
    """Serve RocketMQ's gRPC clients in front of a cluster, until told to stop.

    Examples:
        flintmq proxy --namesrv 127.0.0.1:9876
        flintmq proxy --listen 0.0.0.0:8081 --namesrv mq.example:9876 --acl auth --accounts accounts
    """
    try:
        require_grpc()
        where = GRPC_HERE if listen is None else Address.parse(listen)
        tls = choose_tls(tls_cert, tls_key, tls_client_ca, tls_mode)
        plan = choose_accounts(acl, accounts, None, None, audit=audit, audits_all=audit_all)
        refuse_if_open([where], tls, plan, is_open=is_open)
        servers_tls = choose_client_tls(namesrv_ca, namesrv_cert, namesrv_key, "--namesrv")
        client = ClientConfig(
            namesrv=namesrv or str(NAMESRV_HERE),
            access_key=access_key,
            secret_key=secret_key,
            tls=servers_tls or False,
        )
        watched = None if metrics is None else Address.parse(metrics)
        if watched is not None:
            check_metrics(watched)
        host = None if advertise is None else parse_host(advertise)
        grpc = GrpcPlan(listen=where, tls=tls, advertise=host)
    except FlintError as error:
        exit_with_error(error)
    serve_until_told(_serve(grpc, client, plan, watched), log_level)


async def _serve(
    grpc: GrpcPlan, client: ClientConfig, plan: AccountPlan | None, metrics: Address | None
) -> None:
    stopping = stop_signal()
    files = None if plan is None else AccountFiles(plan)
    accounts = None if files is None else files.open()
    watch = None if files is None else asyncio.ensure_future(files.watch())
    try:
        auditor = None if files is None else files.auditor
        door = await open_door(grpc, client, accounts, auditor)
        pages = None
        try:
            if metrics is not None:
                pages = await serve_metrics(metrics, [door.source])
            typer.echo(f"flintmq ready grpc={door.address}")
            await stopping_or_failed(stopping)
        finally:
            await door.stop()
            if pages is not None:
                await pages.stop()
    finally:
        if watch is not None:
            watch.cancel()
        if files is not None:
            files.close()
