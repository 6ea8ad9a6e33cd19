"""Messages as an Arrow table, for listeners that want columns.

The columns are those of the source in its own form, with the properties as a map.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from flintmq.arrow.schema import Properties, Shape, arrow_schema
from flintmq.model.message import ReceivedMessage

TABLE_SHAPE: Final = Shape(properties=Properties.MAP)


def message_table(messages: Sequence[ReceivedMessage]) -> pa.Table:
    """One row for each message, in their order."""
    schema = arrow_schema(TABLE_SHAPE)
    columns = {
        "topic": [each.topic for each in messages],
        "broker": [each.broker for each in messages],
        "queue_id": [each.queue_id for each in messages],
        "queue_offset": [each.queue_offset for each in messages],
        "message_id": [each.message_id for each in messages],
        "tags": [each.tags for each in messages],
        "keys": [list(each.keys) for each in messages],
        "body": [each.body for each in messages],
        "flag": [each.flag for each in messages],
        "sys_flag": [each.sys_flag for each in messages],
        "born_time": [each.born_ms * 1_000 for each in messages],
        "store_time": [each.store_ms * 1_000 for each in messages],
        "reconsume_times": [each.reconsume_times for each in messages],
        "properties": [list(each.properties.items()) for each in messages],
    }
    arrays = [pa.array(columns[field.name], type=field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
