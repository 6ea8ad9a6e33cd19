"""Options of the commands that serve: `broker`, `namesrv` and `serve` declare each of them once.

None has a default here: what is not given comes from the environment, then from the file.

A broker that is given a role wants slaves, or to be one: unless something else says where, slaves
are served one port above the broker's own, as in RocketMQ.  A combination that makes no sense, as a
slave with the id 0, is refused before anything is opened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from flintmq.broker.config.broker_config import (
    BROKER_ID_MAX,
    BROKERS_MAX,
    MIB,
    BrokerConfig,
)
from flintmq.cli.shared.server_process import LogLevel
from flintmq.cli.shared.tls_options import option
from flintmq.errors import InvalidSetting
from flintmq.model.broker_role import BrokerRole
from flintmq.nameserver.config import HERE as NAMESRV_HERE
from flintmq.net.address import PORT_MAX, Address
from flintmq.store.files.store_config import Flush

BROKER_HERE = Address("127.0.0.1", 10911)
"""RocketMQ's own port, on loopback unless told otherwise."""

DATA = Path("flintmq-data")

KV_FILE = "kvConfig.json"
"""What RocketMQ calls the file of a name server's settings."""


_LISTEN = ("FLINTMQ_BROKER_LISTEN", "HOST:PORT")
_NAMESRV_LISTEN = ("FLINTMQ_NAMESRV_LISTEN", "HOST:PORT")

Data = Annotated[
    Path | None,
    option(
        "--data",
        "FLINTMQ_DATA",
        "DIR",
        "The store directory.",
        default=DATA,
    ),
]
Config = Annotated[
    Path | None,
    option(
        "--config",
        "FLINTMQ_BROKER_CONFIG",
        "FILE",
        "A broker.conf: key=value lines under RocketMQ's names.",
    ),
]
FlushMode = Annotated[
    Flush | None,
    option(
        "--flush",
        "FLINTMQ_FLUSH",
        None,
        "When a send is acknowledged: sync, once it is fsynced, or async, once it is in "
        "the page cache.",
        default=Flush.SYNC.value,
    ),
]
Advertise = Annotated[
    str | None,
    option(
        "--advertise",
        "FLINTMQ_ADVERTISE",
        "HOST[:PORT]",
        "What clients are told to connect to (brokerIP1), when it is not where we listen.",
    ),
]
BrokerName = Annotated[
    str | None,
    option(
        "--name",
        "FLINTMQ_BROKER_NAME",
        "NAME",
        "The name of the broker in its cluster.",
        default="broker-a",
    ),
]
Listen = Annotated[
    str | None,
    option("--listen", *_LISTEN, "Where to listen.", default=BROKER_HERE),
]
BrokerListen = Annotated[
    str | None,
    option(
        "--broker-listen",
        *_LISTEN,
        "Where the broker listens.",
        default=BROKER_HERE,
    ),
]
Brokers = Annotated[
    int | None,
    typer.Option(
        "--brokers",
        envvar="FLINTMQ_BROKERS",
        min=1,
        max=BROKERS_MAX,
        help="How many broker processes to run, each in a directory of its own; ports are ten "
        "apart. One process uses one core.",
        show_default="1",
    ),
]
AdminListen = Annotated[
    str | None,
    option(
        "--admin-listen",
        "FLINTMQ_ADMIN_LISTEN",
        "HOST:PORT",
        "Serve the broker's administrative requests here and nowhere else.",
    ),
]
Metrics = Annotated[
    str | None,
    option(
        "--metrics",
        "FLINTMQ_METRICS",
        "HOST:PORT",
        "Serve /metrics for Prometheus, /healthz and /readyz here; needs flintmq[metrics].",
    ),
]
NamesrvMetrics = Annotated[
    str | None,
    option(
        "--metrics",
        "FLINTMQ_NAMESRV_METRICS",
        "HOST:PORT",
        "Serve /metrics for Prometheus, /healthz and /readyz here; needs flintmq[metrics].",
    ),
]
_NAMESRV_ADMIN = (
    "FLINTMQ_NAMESRV_ADMIN_LISTEN",
    "HOST:PORT",
    "Serve the name server's administrative requests here; clients and brokers ask elsewhere.",
)
NamesrvOwnAdminListen = Annotated[str | None, option("--admin-listen", *_NAMESRV_ADMIN)]
NamesrvAdminListen = Annotated[str | None, option("--namesrv-admin-listen", *_NAMESRV_ADMIN)]
FastPort = Annotated[
    bool,
    typer.Option(
        "--fast-port/--no-fast-port",
        envvar="FLINTMQ_FAST_PORT",
        help="Also listen two ports below, where RocketMQ's fast channel (vipChannelEnabled) and "
        "rocketmq-dashboard go.",
    ),
]
Level = Annotated[
    LogLevel, typer.Option("--log-level", envvar="FLINTMQ_LOG_LEVEL", help="How much to log.")
]
Namesrv = Annotated[
    str | None,
    typer.Option(
        "--namesrv",
        envvar=["FLINTMQ_NAMESRV", "NAMESRV_ADDR"],
        metavar="HOST:PORT[;HOST:PORT…]",
        help="The name servers to register at.",
        show_default=str(NAMESRV_HERE),
    ),
]
NamesrvListen = Annotated[
    str | None,
    option(
        "--namesrv-listen",
        *_NAMESRV_LISTEN,
        "Where the name server listens.",
        default=NAMESRV_HERE,
    ),
]
NamesrvOwnListen = Annotated[
    str | None,
    option("--listen", *_NAMESRV_LISTEN, "Where to listen.", default=NAMESRV_HERE),
]
NamesrvConfig = Annotated[
    Path | None,
    option(
        "--config",
        "FLINTMQ_NAMESRV_CONFIG",
        "FILE",
        "A namesrv.conf: key=value lines under RocketMQ's names.",
    ),
]
NamesrvData = Annotated[
    Path | None, option("--data", "FLINTMQ_NAMESRV_DATA", "DIR", f"Where to keep {KV_FILE}.")
]
REPLICAS_PANEL = "Replicas"

Role = Annotated[
    BrokerRole | None,
    typer.Option(
        "--role",
        envvar="FLINTMQ_BROKER_ROLE",
        case_sensitive=False,
        help="A master, which waits for its slaves (SYNC_MASTER) or does not, or a slave.",
        show_default=BrokerRole.ASYNC_MASTER.value,
        rich_help_panel=REPLICAS_PANEL,
    ),
]
BrokerId = Annotated[
    int | None,
    typer.Option(
        "--id",
        envvar="FLINTMQ_BROKER_ID",
        min=0,
        max=BROKER_ID_MAX,
        help="Which replica of its name: 0 is the master, a slave has a number above.",
        show_default="0; 1 for a slave",
        rich_help_panel=REPLICAS_PANEL,
    ),
]
HaPort = Annotated[
    int | None,
    typer.Option(
        "--ha-port",
        envvar="FLINTMQ_HA_PORT",
        min=0,
        max=PORT_MAX,
        help="Where slaves fetch the log; open only with this option or --role.",
        show_default="one above the broker's port",
        rich_help_panel=REPLICAS_PANEL,
    ),
]
Scrub = Annotated[
    int | None,
    typer.Option(
        metavar="MIB",
        envvar="FLINTMQ_SCRUB",
        min=0,
        help="Check the log again in the background, so many MiB a second.",
        show_default="0, off",
        rich_help_panel=REPLICAS_PANEL,
    ),
]
HaMaster = Annotated[
    str | None,
    option(
        "--ha-master",
        "FLINTMQ_HA_MASTER",
        "HOST:PORT",
        "The HA port of the master, for a slave whose name servers do not know it.",
        panel=REPLICAS_PANEL,
    ),
]


@dataclass(frozen=True, slots=True)
class ReplicaOptions:
    """What the command line says of replicas.  What is None is not given."""

    role: BrokerRole | None = None
    broker_id: int | None = None
    ha_port: int | None = None
    ha_master: str | None = None
    scrub_mib: int | None = None
    """How much of the log is checked again each second."""

    def applied(self, config: BrokerConfig) -> BrokerConfig:
        """The settings with these options over them.  Raises `InvalidSetting`."""
        role = self.role or config.role
        broker_id = config.broker_id if self.broker_id is None else self.broker_id
        if self.role is not None and self.broker_id is None:
            broker_id = 0 if role.is_master else config.broker_id or 1
        ha_port = config.ha_port if self.ha_port is None else self.ha_port
        if self.role is not None and ha_port is None:
            ha_port = 0
        master = config.ha_master_address
        if self.ha_master is not None:
            master = str(Address.parse(self.ha_master))
        if self.ha_master is not None and role.is_master:
            raise InvalidSetting("--ha-master", self.ha_master, "a master has none: --role SLAVE")
        scrub_bytes = config.scrub_bytes_per_s
        if self.scrub_mib is not None:
            scrub_bytes = self.scrub_mib * MIB
        try:
            return replace(
                config,
                role=role,
                broker_id=broker_id,
                ha_port=ha_port,
                ha_master_address=master,
                scrub_bytes_per_s=scrub_bytes,
            )
        except ValueError as error:
            reason = f"{error} (--id {broker_id})"
            raise InvalidSetting("--role", role.value, reason) from None
