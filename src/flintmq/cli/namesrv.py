"""`flintmq namesrv`: a name server as a process of its own.

What a flag says beats the environment, which beats the file.  The file is RocketMQ's own
namesrv.conf.  Settings that people put over the wire are kept in kvConfig.json in the data
directory, or at the file's kvConfigPath; with neither they end with the process.

    exit 0   it was asked to stop, by SIGTERM or SIGINT
    exit 1   it could not start: the reason is on stderr
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

import typer

from flintmq.cli.shared.server_options import (
    KV_FILE,
    NamesrvConfig,
    NamesrvData,
    NamesrvOwnListen,
)
from flintmq.cli.shared.server_process import exit_with_error, say, stop_signal, warn_if_open
from flintmq.cli.shared.tls_options import Mode, TlsCert, TlsClientCa, TlsKey, choose_tls
from flintmq.errors import FlintError
from flintmq.nameserver.config import NameServerConfig, read_config
from flintmq.nameserver.server import NameServer
from flintmq.net.address import Address
from flintmq.net.loop import run
from flintmq.net.tls import ServerTls, TlsMode
from flintmq.store.files.disk import Disk


def namesrv(
    listen: NamesrvOwnListen = None,
    config: NamesrvConfig = None,
    data: NamesrvData = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    tls_mode: Mode = TlsMode.PERMISSIVE,
) -> None:
    """Run a name server until it is told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        with Disk() as disk:
            chosen = _choose(disk, listen, config, data)
            tls = choose_tls(tls_cert, tls_key, tls_client_ca, tls_mode)
            warn_if_open([chosen.listen], tls)
            run(_serve(disk, chosen, tls))
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


async def _serve(disk: Disk, config: NameServerConfig, tls: ServerTls | None) -> None:
    stopping = stop_signal()
    loaded, save = None, None
    if config.kv_config_path is not None:
        path = Path(config.kv_config_path)
        disk.make_directory(path.parent)
        loaded = disk.read_all(path) if disk.is_file(path) else None
        save = partial(disk.replace, path)
    server = await NameServer.start(config, tls=tls, loaded=loaded, save=save)
    try:
        typer.echo(f"flintmq ready namesrv={server.address}")
        await stopping.wait()
    finally:
        await server.stop()
