"""What each of several brokers is told: its name, its directory and its ports.

    broker     --broker-listen, and ten above for each further one: 10911, 10921, 10931
    fast port  two below each; slaves, where broker.conf lets them in, one above each
    metrics    --metrics is the parent's; the brokers' are one above, two above, …

Port 0 is any free port, for each of them.  Refused: an address for admins, which is one broker's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from flintmq.cli.broker import Chosen
from flintmq.cli.brokers.broker_layout import broker_directories
from flintmq.cli.brokers.child_lines import ChildPlan
from flintmq.cli.shared.server_process import LogLevel
from flintmq.embedded.account_files import AccountPlan
from flintmq.errors import InvalidSetting
from flintmq.net.address import PORT_MAX, Address
from flintmq.net.tls import ServerTls

if TYPE_CHECKING:
    from flintmq.embedded.servers import Servers

PORT_STEP: Final = 10
"""A broker has a fast port two below its own and a port for slaves one above: they do not meet."""


def broker_shares(chosen: Chosen, count: int) -> list[Chosen]:
    """How to run each broker.  Raises `InvalidSetting`; writes down which brokers there are."""
    if count > 1 and chosen.admin_listen is not None:
        reason = "it is the address of one broker: run each with flintmq broker for that"
        raise InvalidSetting("--admin-listen", str(chosen.admin_listen), reason)
    shares = [chosen] if count == 1 else [_moved(chosen, number) for number in range(count)]
    places = broker_directories(chosen.directory, chosen.config.broker_name, count)
    return [
        replace(share, directory=directory, config=replace(share.config, broker_name=name))
        for share, (name, directory) in zip(shares, places.items(), strict=True)
    ]


def _moved(chosen: Chosen, number: int) -> Chosen:
    """The same on the ports of a broker, which are counted from 0."""
    up, told, ha_port = number * PORT_STEP, chosen.advertise, chosen.config.ha_port
    if ha_port:
        ha_port = _higher(replace(chosen.listen, port=ha_port), up).port
    return replace(
        chosen,
        config=replace(chosen.config, ha_port=ha_port),
        listen=_higher(chosen.listen, up),
        advertise=None if told is None else _higher(told, up),
        metrics=None if chosen.metrics is None else _higher(chosen.metrics, number + 1),
    )


def child_plans(
    servers: Servers,
    shares: Sequence[Chosen],
    tls: ServerTls | None,
    accounts: AccountPlan | None,
    level: LogLevel,
) -> list[ChildPlan]:
    """What the processes are told: where our name server is, and who may do what.

    Each broker reads the accounts of the parent, which has made the first user, and has an audit
    log of its own: one file cannot be written and renamed by several processes.
    """
    from flintmq.embedded.servers import reachable, tls_among_ourselves

    namesrv = tuple(reachable(each) for each in servers.namesrv)
    plans = []
    for share in shares:
        own = accounts
        if own is not None:
            audit = None if own.audit is None else _audit_of(own.audit, share.config.broker_name)
            own = replace(own, first_user=None, inner=servers.inner, audit=audit)
        plans.append(ChildPlan(share, namesrv, tls, tls_among_ourselves(tls), own, level))
    return plans


def _audit_of(path: Path, name: str) -> Path:
    """``audit.jsonl`` becomes ``audit-broker-a.jsonl``."""
    return path.with_name(f"{path.stem}-{name}{path.suffix}")


def _higher(address: Address, steps: int) -> Address:
    """The same address some ports above; port 0 stays what it is."""
    port = address.port + steps
    if address.port == 0:
        return address
    if port > PORT_MAX:
        raise InvalidSetting("listen address", str(address), "there is no room above for --brokers")
    return replace(address, port=port)
