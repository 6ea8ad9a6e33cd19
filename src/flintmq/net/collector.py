"""How often a process that runs for long looks for cycles of objects."""

from __future__ import annotations

import gc
from typing import Final

YOUNG_OBJECTS: Final = 20_000
"""New objects before the collector looks for cycles among them; a millisecond of work."""


def ease_collector() -> None:
    """Collect garbage less often: reference counts alone free what a request or a plan allocates.

    Each look at all objects takes longer the more there are, and nothing of it is freed.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
