"""Headers that several requests share, and those of name server settings and broker figures.

Settings are PUT_KV_CONFIG (100) to DELETE_KV_CONFIG (102) and GET_KVLIST_BY_NAMESPACE (219), and
the version of a broker's own (GET_BROKER_CONFIG 26).

Besides its own fields any request may carry some that say nothing to us, and a header class
leaves them out: ``AccessKey``, ``SecurityToken`` and ``Signature`` (see `signature`),
``OnsChannel`` (C++ clients), ``ReqT`` (Java pull consumers), and of 5.x ``ns`` and ``nsd``
(namespaces), ``lo`` (static topics) and ``oway`` (calls between brokers).  They stay in the
command, so a request that is passed on keeps them.
"""

from __future__ import annotations

from msgspec import field

from flintmq.protocol.fields import Header, Int32


class NoFields(Header, frozen=True):
    """Requests and answers that say all they have to say in code, remark and body."""


class Named(Header, frozen=True, kw_only=True):
    """A request to one broker by its name, which 4.9.5 and later clients add."""

    broker_name: str | None = field(default=None, name="bname")


class OfTopic(Header, frozen=True, kw_only=True):
    topic: str


class OfQueue(Named, frozen=True, kw_only=True):
    topic: str
    queue_id: Int32


class GroupHeader(Header, frozen=True, kw_only=True):
    group: str


class OfConsumerGroup(Header, frozen=True, kw_only=True):
    consumer_group: str


class OfProducerGroup(Header, frozen=True, kw_only=True):
    producer_group: str


class OfGroupAndTopic(Header, frozen=True, kw_only=True):
    topic: str
    group: str


class SettingOf(Header, frozen=True, kw_only=True):
    """101 GET_KV_CONFIG and 102 DELETE_KV_CONFIG."""

    namespace: str
    key: str


class PutSetting(SettingOf, frozen=True, kw_only=True):
    """PUT_KV_CONFIG (100)."""

    value: str


class SettingsOf(Header, frozen=True, kw_only=True):
    """GET_KVLIST_BY_NAMESPACE (219)."""

    namespace: str


class SettingAnswer(Header, frozen=True, kw_only=True):
    """Answer to GET_KV_CONFIG (101)."""

    value: str | None = None


class BrokerConfigAnswer(Header, frozen=True, kw_only=True):
    """To 26 GET_BROKER_CONFIG; the version is a JSON object."""

    version: str


class ViewBrokerStats(Header, frozen=True, kw_only=True):
    """VIEW_BROKER_STATS_DATA (315)."""

    stats_name: str
    stats_key: str


class BrokerConsumeStats(Header, frozen=True, kw_only=True):
    """317 GET_BROKER_CONSUME_STATS; of orderly groups only, or of the others only."""

    is_order: bool
