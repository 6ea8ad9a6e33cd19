"""Records of real stores, and drafts made of them again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from flintmq.protocol.records.record import Record, decode_record, is_filler, record_size
from flintmq.protocol.records.record_pattern import RecordPattern, packed_host
from support.store.stored import Draft


def real_records(store: Path) -> Iterator[Record]:
    for path in sorted((store / "commitlog").iterdir()):
        octets = path.read_bytes()
        at = 0
        while at < len(octets) and record_size(octets, at) and not is_filler(octets, at):
            yield decode_record(octets, at)
            at += record_size(octets, at)


def redraft(record: Record) -> Draft:
    pattern = RecordPattern(
        record.topic,
        record.queue_id,
        store_host=record.store_host,
        born_is_v6=record.born_host.is_v6,
        flag=record.flag,
        sys_flag=record.sys_flag,
        reconsume_times=record.reconsume_times,
        prepared_offset=record.prepared_offset,
    )
    born_host = packed_host(record.born_host)
    return Draft(pattern, record.body, record.properties, record.born_ms, born_host)
