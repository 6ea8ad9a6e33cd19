"""No decoder can be brought to raise a foreign error, to hang or to outgrow its limits.

Each target is fed bytes of real peers that were cut, flipped, doubled and joined by chance,
texts that were grown from a grammar, and bytes of no origin at all.  A failure names its seed and
the input in hexadecimal.  The ordinary tests try some thousand inputs, `make fuzz` as many as it
is told.  What recovery makes of broken files is the matter of `make crash`.
"""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random

import pytest

from flintmq.errors import FlintError
from flintmq.model.message import BODY_BYTES_MAX
from flintmq.protocol.records.batch import decode_batch
from support.fuzz import checks, corpus
from support.fuzz.bending import bent
from support.fuzz.served import check_broker, check_name_server
from support.protocol.fuzz_wire import check_frame_bytes

EXAMPLES = int(os.environ.get("FLINTMQ_FUZZ_EXAMPLES", "1500"))
SEED = int(os.environ.get("FLINTMQ_FUZZ_SEED", "20260101"))

CPU_SECONDS_MAX = 0.05
"""Of this thread, for one input of 4 kB: a turn of a server's loop is some milliseconds."""

NOISE_FACTOR = 4
"""A busy machine and a collection in between; a hang takes for ever."""

TRIES = 5
"""An input over the limit is measured again, and the least counts."""

MEMORY_BYTES_MAX = 16 * checks.UNPACKED_BYTES_MAX
ANSWER_BYTES_MAX = MEMORY_BYTES_MAX + BODY_BYTES_MAX
"""For who is not told a limit of its own for what bodies unpack to."""

Target = Callable[[bytes], object]

TARGETS: dict[str, tuple[Target, Callable[[], Sequence[bytes]], int]] = {
    # name: what is checked, what is bent, and one in how many examples (some are dear)
    "frames": (check_frame_bytes, corpus.frames, 4),
    "headers": (checks.check_header, corpus.headers, 1),
    "requests to a broker": (check_broker, corpus.requests, 8),
    "requests to a name server": (check_name_server, corpus.requests, 2),
    "pull answers": (checks.check_pull_answer, partial(corpus.answers, 11, 361), 2),
    "records": (checks.check_records, corpus.records, 4),
    "inner batches": (checks.check_messages, corpus.inner_batches, 2),
    "batches": (decode_batch, corpus.batches, 1),
    "bodies": (checks.check_bodies, corpus.bodies, 8),
    "registrations": (checks.check_registration, corpus.registrations, 2),
    "packed": (checks.check_packed, corpus.packed, 1),
    "properties": (checks.check_properties, corpus.records, 1),
    "SQL92": (checks.check_expression, corpus.expressions, 4),
    "tags": (checks.check_tags, corpus.tags, 1),
    "settings": (checks.check_settings, corpus.settings, 4),
}


def cpu_of(check: Target, data: bytes) -> float:
    start = time.thread_time()
    with suppress(FlintError):
        check(data)
    return time.thread_time() - start


def run(name: str, count: int) -> None:
    check, corpus_of, share = TARGETS[name]
    inputs = list(corpus_of())
    assert inputs, f"{name} has nothing to start from"
    limit_s = CPU_SECONDS_MAX * NOISE_FACTOR
    chance = Random(f"{SEED}/{name}")
    for data in inputs[:1]:  # what is made once and kept does not count
        cpu_of(check, data)
    for number in range(max(1, count // share)):
        data = bent(inputs, chance)
        try:
            took_s = cpu_of(check, data)
        except BaseException as error:
            error.add_note(f"{name}, seed {SEED}, example {number}: {data.hex()}")
            raise
        if took_s > limit_s:
            took_s = min(cpu_of(check, data) for _ in range(TRIES))
        assert took_s <= limit_s, f"{name} takes {took_s:.2f} s of CPU for {data.hex()}"


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_bytes_raise_only_errors_of_ours(name: str) -> None:
    run(name, EXAMPLES)


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_bytes_take_no_more_memory_than_the_limits(name: str) -> None:
    check, corpus_of, _ = TARGETS[name]
    inputs = list(corpus_of())
    chance = Random(f"{SEED}/{name}/memory")
    with suppress(FlintError):
        check(inputs[0])  # what is made once and kept does not count
    tracemalloc.start()
    try:
        for _ in range(100):
            with suppress(FlintError):
                check(bent(inputs, chance))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < (ANSWER_BYTES_MAX if name == "pull answers" else MEMORY_BYTES_MAX)
