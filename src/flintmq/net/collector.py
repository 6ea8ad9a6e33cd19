"""How often a process that runs for long looks for cycles of objects."""

from __future__ import annotations

import gc
from typing import Final

YOUNG_OBJECTS: Final = 20_000
"""New objects before the collector looks for cycles among them; a millisecond of work."""

LOADED_OBJECTS: Final = 200_000
"""The same until a server is ready: more than it loads, nearly all of which it keeps."""

OLD_ROUNDS: Final = 20


def still_collector() -> None:
    """Collect next to nothing while a server starts, until `ease_collector`."""
    gc.set_threshold(LOADED_OBJECTS, OLD_ROUNDS, OLD_ROUNDS)


def ease_collector() -> None:
    """Collect garbage less often: reference counts alone free what a request or a plan allocates.

    What is there now is looked at once more and then never again: each look at all objects takes
    longer the more there are, and frees nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, OLD_ROUNDS, OLD_ROUNDS)
