"""Everything that a member of a group asks of its driver, by pull and by pop."""

from __future__ import annotations

from typing import TypeAlias

from flintmq.core.group.actions import Action as PullAction
from flintmq.core.pop.popped_queue import PopAction

Action: TypeAlias = PullAction | PopAction
