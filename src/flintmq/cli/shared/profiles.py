"""Clusters by name, from ``~/.config/flintmq/config.toml`` or the file that FLINTMQ_CONFIG names.

    default = "dev"

    [clusters.dev]
    namesrv = "127.0.0.1:9876"

    [clusters.prod]
    namesrv = "ns1.example:9876;ns2.example:9876"
    tls_ca = "ca.pem"
    tls_cert = "me.pem"
    tls_key = "me.key"
    access_key = "ops"
    secret_file = "prod.secret"     # or secret_env = "PROD_SECRET"

Paths count from the directory of the file, and ``~`` is the home directory.  A secret is never in
the file itself, and a file with one that others can read is refused.  A key that is not known is an
error: a setting that is silently ignored may be the one that keeps others out.

Invariant: neither a `Profile` nor an error shows a secret; it is read when a command connects.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from flintmq.errors import FlintError, InvalidSetting
from flintmq.net.address import parse_addresses

FILE_VARIABLE: Final = "FLINTMQ_CONFIG"
CLUSTER_VARIABLE: Final = "FLINTMQ_CLUSTER"

TOP: Final = ("default", "clusters")
IN_FILE: Final = frozenset({"secret_key", "secret", "password"})
"""What people write for a secret; it is refused with what to write in its place."""

FILE_BYTES_MAX: Final = 1024 * 1024
"""Of a file of clusters, and of a secret: nobody writes more, and a device never ends."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How to reach one cluster, and who we are there."""

    name: str
    namesrv: str
    tls: bool = False
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    access_key: str | None = None
    secret_file: str | None = None
    secret_env: str | None = None

    @property
    def secret_source(self) -> str | None:
        """Where the secret comes from, for people."""
        if self.secret_file is not None:
            return f"file {self.secret_file}"
        return None if self.secret_env is None else f"variable {self.secret_env}"

    def secret(self) -> str | None:
        """The secret itself; `InvalidSetting` when it is not where it should be."""
        if self.secret_env is not None:
            value = os.environ.get(self.secret_env, "")
            if not value:
                where = f"clusters.{self.name}.secret_env"
                raise InvalidSetting(where, self.secret_env, "this variable is not set")
            return value
        return None if self.secret_file is None else _read_secret(self.name, self.secret_file)

    def values(self) -> dict[str, Any]:
        """What the options of a connection would be, by their names."""
        return {
            "namesrv": self.namesrv,
            "access_key": self.access_key,
            "secret_key": self.secret(),
            "tls": self.tls,
            "tls_ca": self.tls_ca,
            "tls_cert": self.tls_cert,
            "tls_key": self.tls_key,
        }


KEYS: Final = tuple(each.name for each in fields(Profile) if each.name != "name")


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """All clusters of a file; none where there is no file."""

    path: Path
    clusters: Mapping[str, Profile] = field(default_factory=dict)
    default: str | None = None

    def find(self, name: str) -> Profile:
        """The cluster of this name; `InvalidSetting` says which there are."""
        if name not in self.clusters:
            known = ", ".join(self.clusters) or "none"
            reason = f"{self.path} has no such cluster; there are: {known}"
            raise InvalidSetting("cluster", name, reason + _guess(name, self.clusters))
        return self.clusters[name]


def cluster_file_path() -> Path:
    """Where the file is, or would be."""
    chosen = os.environ.get(FILE_VARIABLE, "")
    if chosen.endswith(".toml"):  # else it is the broker.conf that this variable once named
        return Path(chosen).expanduser()
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "flintmq" / "config.toml"


def read_cluster_file(path: Path | None = None) -> ClusterFile:
    """Read the file and check every key of it.  One that FLINTMQ_CONFIG names must be there."""
    path = cluster_file_path() if path is None else path
    try:
        text = _read(path)
    except FileNotFoundError:
        if str(path) == os.environ.get(FILE_VARIABLE):
            raise InvalidSetting(FILE_VARIABLE, str(path), "there is no such file") from None
        return ClusterFile(path)
    except OSError as error:
        raise InvalidSetting("file", str(path), error.strerror or str(error)) from None
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidSetting("file", str(path), f"it is not TOML: {error}") from None
    _check_keys(path, "", table, TOP)
    clusters = _table(path, "clusters", table.get("clusters", {}))
    found = {
        name: _profile(path, name, _table(path, f"clusters.{name}", values))
        for name, values in clusters.items()
    }
    default = table.get("default")
    if default is not None and default not in found:
        known = ", ".join(found) or "none"
        raise _wrong(path, "default", default, f"there is no such cluster; there are: {known}")
    return ClusterFile(path, found, default)


def complete_cluster(incomplete: str) -> list[str]:
    """Clusters of the file whose names begin like this; none where it cannot be read."""
    try:
        return [name for name in read_cluster_file().clusters if name.startswith(incomplete)]
    except FlintError:
        return []


# Inside


def _profile(path: Path, name: str, values: Mapping[str, Any]) -> Profile:
    where = f"clusters.{name}"
    for key in IN_FILE & values.keys():
        reason = "write no secret here: secret_file names a file, secret_env a variable with it"
        raise _wrong(path, f"{where}.{key}", "…", reason)
    _check_keys(path, where, values, KEYS)
    if "namesrv" not in values:
        raise _wrong(path, where, name, "it has no namesrv: add namesrv = 'HOST:PORT'")
    for key, value in values.items():
        wanted = bool if key == "tls" else str
        if not isinstance(value, wanted):
            kind = "true or false" if wanted is bool else "a text"
            raise _wrong(path, f"{where}.{key}", str(value), f"give {kind}")
    try:
        parse_addresses(values["namesrv"])
    except InvalidSetting as error:
        raise _wrong(path, f"{where}.namesrv", values["namesrv"], error.reason) from None
    if "secret_file" in values and "secret_env" in values:
        raise _wrong(path, where, name, "give secret_file or secret_env")
    if ("access_key" in values) != ("secret_file" in values or "secret_env" in values):
        reason = "access_key goes together with secret_file or secret_env"
        raise _wrong(path, where, name, reason)
    if "tls_key" in values and "tls_cert" not in values:
        raise _wrong(path, where, name, "tls_key goes together with tls_cert")
    files = ("tls_ca", "tls_cert", "tls_key", "secret_file")
    found = {
        key: str(path.parent / Path(values[key]).expanduser()) for key in files if key in values
    }
    return Profile(name, **{**values, **found})


def _read_secret(name: str, file: str) -> str:
    where = f"clusters.{name}.secret_file"
    try:
        mode = stat.S_IMODE(Path(file).stat().st_mode)
        if mode & (stat.S_IRGRP | stat.S_IROTH):
            reason = f"others can read it (mode {mode:04o}): chmod 600 {file}"
            raise InvalidSetting(where, file, reason)
        secret = _read(Path(file)).strip()
    except OSError as error:
        raise InvalidSetting(where, file, error.strerror or str(error)) from None
    if not secret:
        raise InvalidSetting(where, file, "it is empty")
    return secret


def _read(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise InvalidSetting("file", str(path), f"it has more than {FILE_BYTES_MAX} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidSetting("file", str(path), "it is not UTF-8") from None


def _check_keys(path: Path, where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in table:
        if key not in known:
            reason = f"this key is not known; there are: {', '.join(known)}"
            at = f"{where}.{key}" if where else key
            raise _wrong(path, at, key, reason + _guess(key, known))


def _table(path: Path, where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(path, where, str(value), f"write a table: [{where}]")
    return value


def _guess(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def _wrong(path: Path, where: str, value: str, reason: str) -> InvalidSetting:
    return InvalidSetting(f"{path}: {where}", value, reason)
