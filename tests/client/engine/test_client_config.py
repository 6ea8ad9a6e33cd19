"""Settings are checked when they are given, and the name server when a client starts."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from flintmq.client.engine.client_config import ClientConfig, ClientSettings, split_settings
from flintmq.errors import InvalidSetting
from flintmq.net.tls import ClientTls


@dataclass(frozen=True, kw_only=True)
class Special:
    colour: str = "red"


def test_name_servers_come_from_the_setting_or_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "env:1;other:2")

    assert ClientConfig(namesrv="a:9876; b:9876;").name_servers == ("a:9876", "b:9876")
    assert ClientConfig().name_servers == ("env:1", "other:2")
    monkeypatch.setenv("NAMESRV_ADDR", " ")
    with pytest.raises(InvalidSetting, match="give namesrv= or set NAMESRV_ADDR"):
        _ = ClientConfig().name_servers


def test_an_account_has_both_keys_or_none() -> None:
    assert ClientConfig().account is None
    account = ClientConfig(access_key="a", secret_key="s", security_token="t").account
    assert account is not None
    assert (account.access_key, account.secret_key, account.security_token) == ("a", "s", "t")
    with pytest.raises(InvalidSetting, match="go together"):
        ClientConfig(secret_key="s")


def test_tls_may_be_asked_for_by_a_word() -> None:
    own = ClientTls(verify=False)

    assert ClientConfig().client_tls is None
    assert ClientConfig(tls=True).client_tls == ClientTls()
    assert ClientConfig(tls=own).client_tls is own


def test_settings_are_split_between_what_all_and_what_one_kind_has() -> None:
    common, special = split_settings({"colour": "blue", "namesrv": "h:1"}, Special)

    assert (common.namesrv, special.colour) == ("h:1", "blue")
    with pytest.raises(InvalidSetting, match="did you mean colour"):
        split_settings({"color": "blue"}, Special)
    with pytest.raises(InvalidSetting, match="no such setting"):
        split_settings({"xyzzy": 1}, Special)


def test_the_keyword_arguments_are_the_fields() -> None:
    assert set(ClientSettings.__annotations__) == set(ClientConfig.__dataclass_fields__)
