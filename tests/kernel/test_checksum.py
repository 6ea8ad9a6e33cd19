"""Checksums are those of zlib, whichever package computes them."""

from __future__ import annotations

import sys
import zlib
from functools import partial
from importlib import reload
from random import Random
from types import SimpleNamespace

import pytest

from flintmq.kernel import checksum


@pytest.mark.parametrize("size_bytes", [0, 1, 15, 16, 100, 1024, 70_000])
def test_a_checksum_is_that_of_zlib(size_bytes: int) -> None:
    octets = Random(size_bytes).randbytes(size_bytes)

    assert checksum.crc32(octets) == zlib.crc32(octets)
    assert checksum.crc32(memoryview(octets)) == zlib.crc32(octets)


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_quicker_package_is_used_where_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, is_installed: bool
) -> None:
    quick = SimpleNamespace(crc32=partial(zlib.crc32))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "isal", SimpleNamespace() if is_installed else None)
        patch.setitem(sys.modules, "isal.isal_zlib", quick if is_installed else None)
        chosen = reload(checksum).crc32
    reload(checksum)

    assert chosen is (quick.crc32 if is_installed else zlib.crc32)
