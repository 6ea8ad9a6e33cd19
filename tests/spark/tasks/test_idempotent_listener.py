"""A listener with a store for keys works in tasks: it travels there, and tasks share the keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flintmq import SqliteKeys, idempotent
from flintmq.core.group.app import App
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.spark.tasks.listener_task import listen
from flintmq.spark.tasks.packed_app import pack, read_program, unpack
from spark.tasks.test_listener_task import part_of
from support.spark.support import create_topic, send


def test_what_one_task_consumed_another_drops(broker: EmbeddedBroker, tmp_path: Path) -> None:
    create_topic(broker, "once", 2)
    for queue_id in (0, 1):
        for order in ("o-1", "o-2"):
            send(broker, "once", [f"{order} in {queue_id}"], queue_id=queue_id, keys=[order])
    app, ledger = App("once", namesrv=broker.namesrv), str(tmp_path / "ledger")

    @app.listener("once")
    @idempotent(SqliteKeys(str(tmp_path / "seen.db")), scope="once", key=lambda each: each.keys[0])
    def bill(messages: Any) -> None:
        with Path(ledger).open("a") as file:
            file.writelines(f"{message.body.decode()}\n" for message in messages)

    outcomes = [
        row["outcome"]
        for queue_id in (0, 1)
        for batch in listen(unpack(pack(read_program(app))), part_of(broker, "once", 2, queue_id))
        for row in batch.to_pylist()
    ]

    assert outcomes == ["consumed"] * 4
    assert Path(ledger).read_text().splitlines() == ["o-1 in 0", "o-2 in 0"]
