"""plain_acl.yml is read as a whole or not at all, and written back the same."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from flintmq.access.plain_file import read_plain_file, rules_of_files, write_plain_file
from flintmq.access.sources import parse_white_addresses
from flintmq.errors import InvalidSetting

ACCOUNT = "accounts: [{accessKey: RocketMQ, secretKey: 12345678%s}]"


def test_an_unquoted_number_is_a_secret_as_it_is_written() -> None:
    (account,) = read_plain_file(
        "accounts: [{accessKey: 0123456, secretKey: 00012345678}]"
    ).accounts

    assert (account.access_key, account.secret_key) == ("0123456", "00012345678")


def test_a_file_is_written_as_it_is_read() -> None:
    file = read_plain_file(ACCOUNT % ", admin: true, topicPerms: [a=PUB|SUB], groupPerms: [g=SUB]")

    assert read_plain_file(write_plain_file(file)) == file


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("accounts: [", "is no YAML"),
        ("- a", "must be a map"),
        ("accounts: 7", "must be a list"),
        ("accounts: [{accessKey: short, secretKey: 12345678}]", "must have 7 characters or more"),
        (ACCOUNT % ", topicPerms: [t1]", "The expected resource format is 'Res=Perm'"),
        (ACCOUNT % ", topicPerms: [t1=XX]", "The expected permissions are"),
        (ACCOUNT % ", whiteRemoteAddress: 1.2.3.4.5", "netaddress is 1.2.3.4.5"),
    ],
)
def test_a_fault_refuses_the_whole_file_and_is_named(content: str, fault: str) -> None:
    with pytest.raises(InvalidSetting, match=fault):
        read_plain_file(content)


def test_no_secret_is_shown() -> None:
    file = read_plain_file(ACCOUNT % "")

    assert "12345678" not in repr(file)
    assert "12345678" not in repr(rules_of_files([file]))


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*", ["1.2.3.4", "::1"], []),
        ("192.168.0.{1,2}", ["192.168.0.1", "192.168.0.2"], ["192.168.0.3"]),
        ("10.0.0.1,10.0.0.9", ["10.0.0.1", "10.0.0.9"], ["10.0.0.2"]),
        ("192.168.*.*", ["192.168.0.0", "192.168.255.255"], ["192.169.0.1"]),
        ("192.168.1-10.*", ["192.168.1.0", "192.168.10.255"], ["192.168.11.0"]),
        ("192.168.0.1-10", ["192.168.0.10"], ["192.168.0.11"]),
        ("2::ac5:78:1-200:*", ["2::ac5:78:200:1"], ["2::ac5:78:201:1"]),
        ("::1", ["::1"], ["::2", "0.0.0.1"]),
    ],
)
def test_white_addresses(pattern: str, inside: list[str], outside: list[str]) -> None:
    sources = parse_white_addresses(pattern)

    def has(text: str) -> bool:
        return any(source.has(ip_address(text)) for source in sources)

    assert [text for text in inside if not has(text)] == []
    assert [text for text in outside if has(text)] == []


@pytest.mark.parametrize("pattern", ["1.2.3", "a.b.c.d", "1.*.3.4", "1.2.300.*", "1.2.3.{4", "-"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidSetting):
        parse_white_addresses(pattern)
