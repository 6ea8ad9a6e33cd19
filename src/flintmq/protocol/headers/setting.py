"""Settings kept by the name server (100 to 102, 219), and the version of a broker's own (26)."""

from __future__ import annotations

from flintmq.protocol.fields import Header


class SettingOf(Header, frozen=True, kw_only=True):
    """101 GET_KV_CONFIG and 102 DELETE_KV_CONFIG."""

    namespace: str
    key: str


class PutSetting(SettingOf, frozen=True, kw_only=True):
    """100 PUT_KV_CONFIG."""

    value: str


class SettingsOf(Header, frozen=True, kw_only=True):
    """219 GET_KVLIST_BY_NAMESPACE."""

    namespace: str


class SettingAnswer(Header, frozen=True, kw_only=True):
    """To 101."""

    value: str | None = None


class BrokerConfigAnswer(Header, frozen=True, kw_only=True):
    """To 26 GET_BROKER_CONFIG; the version is a JSON object."""

    version: str
