"""Every command that asks a cluster does the same with our broker and with the real ones."""

from __future__ import annotations

import pytest

from support.cli.story import Recording, tell
from support.interop.filled import PATIENCE_S
from support.interop.ours import Kind, Served

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),  # it starts servers
]


def test_the_story_of_all_commands_is_the_same_everywhere(each: Served) -> None:
    tell(Recording(each.namesrv, PATIENCE_S, has_modes=each.kind is not Kind.REAL_4_9))
