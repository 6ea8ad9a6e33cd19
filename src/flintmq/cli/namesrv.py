"""`flintmq namesrv`: a name server as a process of its own.

What a flag says beats the environment, which beats the file.  The file is RocketMQ's own
namesrv.conf.  Settings that people put over the wire are kept in kvConfig.json in the data
directory, or at the file's kvConfigPath; with neither they end with the process.

    exit 0   it was asked to stop, by SIGTERM or SIGINT
    exit 1   it could not start: the reason is on stderr
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

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
from flintmq.cli.shared.server_options import (
    KV_FILE,
    NamesrvConfig,
    NamesrvData,
    NamesrvMetrics,
    NamesrvOwnAdminListen,
    NamesrvOwnListen,
)
from flintmq.cli.shared.server_process import (
    check_metrics,
    exit_with_error,
    say,
    stop_signal,
    stopping_or_failed,
)
from flintmq.cli.shared.tls_options import Mode, TlsCert, TlsClientCa, TlsKey, choose_tls
from flintmq.embedded.account_files import AccountFiles, AccountPlan
from flintmq.errors import FlintError
from flintmq.metrics.pages import serve_metrics
from flintmq.nameserver.config import NameServerConfig, read_config
from flintmq.nameserver.monitoring import name_server_source
from flintmq.nameserver.server import NameServer
from flintmq.net.address import Address
from flintmq.net.loop import run
from flintmq.net.tls import ServerTls, TlsMode
from flintmq.store.files.disk import Disk


def namesrv(
    listen: NamesrvOwnListen = None,
    config: NamesrvConfig = None,
    data: NamesrvData = None,
    metrics: NamesrvMetrics = None,
    admin_listen: NamesrvOwnAdminListen = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    tls_mode: Mode = TlsMode.PERMISSIVE,
    acl: AclMode = None,
    accounts: AccountsDirectory = None,
    audit: Audit = None,
    audit_all: AuditAll = False,
    is_open: Open = False,
) -> None:
    """Run a name server until it is told to stop.

    Examples:
        flintmq namesrv --listen 0.0.0.0:9876
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        with Disk() as disk:
            chosen = _choose(disk, listen, config, data)
            tls = choose_tls(tls_cert, tls_key, tls_client_ca, tls_mode)
            plan = choose_accounts(acl, accounts, None, data, audit=audit, audits_all=audit_all)
            admin = None if admin_listen is None else Address.parse(admin_listen)
            listens = [chosen.listen] if admin is None else [chosen.listen, admin]
            refuse_if_open(listens, tls, plan, is_open=is_open)
            watched = None if metrics is None else Address.parse(metrics)
            if watched is not None:
                check_metrics(watched)
            run(_serve(disk, chosen, tls, plan, watched, admin))
    except FlintError as error:
        exit_with_error(error)


def _choose(
    disk: Disk, listen: str | None, file: Path | None, data: Path | None
) -> NameServerConfig:
    """Settings of all sources, the stronger over the weaker."""
    config = NameServerConfig()
    if file is not None:
        config, warnings = read_config(disk.read_all(file))
        for warning in warnings:
            say(f"{file}: {warning}")
    if listen is not None:
        config = replace(config, listen=Address.parse(listen))
    if data is not None:
        config = replace(config, kv_config_path=str(data / KV_FILE))
    return config


async def _serve(
    disk: Disk,
    config: NameServerConfig,
    tls: ServerTls | None,
    plan: AccountPlan | None,
    metrics: Address | None,
    admin: Address | None,
) -> None:
    stopping = stop_signal()
    loaded, save = None, None
    if config.kv_config_path is not None:
        path = Path(config.kv_config_path)
        disk.make_directory(path.parent)
        loaded = disk.read_all(path) if disk.is_file(path) else None
        save = partial(disk.replace, path)
    files = None if plan is None else AccountFiles(plan)
    accounts = None if files is None else files.open()
    server = await NameServer.start(
        config,
        tls=tls,
        loaded=loaded,
        save=save,
        accounts=accounts,
        auditor=None if files is None else files.auditor,
        admin_listen=admin,
    )
    watch = None if files is None else asyncio.ensure_future(files.watch())
    pages = None
    try:
        if metrics is not None:
            pages = await serve_metrics(metrics, [name_server_source(server)])
        typer.echo(f"flintmq ready namesrv={server.address}")
        await stopping_or_failed(stopping)
    finally:
        if watch is not None:
            watch.cancel()
        await server.stop()
        if pages is not None:
            await pages.stop()
        if files is not None:
            files.close()
