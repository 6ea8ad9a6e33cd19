"""Replaying dead letters: shown first, then sent at a rate, with a stop button.

A replay runs in the console and goes on when its page is closed; a group has one at a time.  What a
mark or an earlier replay has dealt with is left out.  The audit log has its beginning and its end.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from flintmq.console.guard.forms import Form
from flintmq.console.pages.changing import begin_change, is_confirmed
from flintmq.console.pages.dead_letter_pages import Letter, chosen, find_letters
from flintmq.console.showing.asked import Asked
from flintmq.console.showing.page import Values, render, sentence
from flintmq.console.showing.site import RunningReplay
from flintmq.console.showing.templates import link
from flintmq.console.watching.cluster_view import side_by_side
from flintmq.core.admin.dead_letters import REPLAY_RATE, BuriedMessage, ReplayTo
from flintmq.errors import FlintError

RATE_MAX: Final = 1_000
"""Messages a second; a group that failed is not run over."""


async def load_replay(asked: Asked) -> Values:
    """The dry run: what would be sent, and how long that takes."""
    group, reason = asked.text("name"), asked.text("reason")
    to = read_to(asked.text("to"))
    rate = asked.number("rate", default=round(REPLAY_RATE), low=1, high=RATE_MAX)
    letters, left_out = await open_letters(asked, group, reason)
    return {
        "group": group,
        "reason": reason,
        "to": to,
        "ways": list(ReplayTo),
        "rate": rate,
        "letters": letters,
        "left_out": left_out,
        "seconds": len(letters) / rate,
        "running": asked.site.replays.get(group),
        "error": "",
    }


def read_to(text: str) -> ReplayTo:
    return ReplayTo.TOPIC if text == ReplayTo.TOPIC.value else ReplayTo.GROUP


async def open_letters(asked: Asked, group: str, reason: str) -> tuple[list[Letter], int]:
    """What is not dealt with and can be sent, oldest first, and how many are left out."""
    found = chosen(await find_letters(asked, group), reason)
    fit = [each for each in found if not each.is_marked and each.buried.origin_topic is not None]
    copies = await side_by_side(asked.cluster.admin.replays(group, each.buried) for each in fit)
    for each in copies:
        if isinstance(each, FlintError):
            raise each  # to send twice what cannot be looked up would be wrong
    left = [letter for letter, sent in zip(fit, copies, strict=True) if not sent]
    return left[::-1], len(found) - len(left)


async def start_replay(request: Request) -> Response:
    """POST: send them, once the name of the group is typed."""
    asked, form = await begin_change(request)
    group, reason = form.text("name"), form.text("reason")
    to, rate = read_to(form.text("to")), _rate(form)
    letters, left_out = await open_letters(asked, group, reason)
    running = asked.site.replays.get(group)
    if running is not None and not running.is_over:
        raise HTTPException(409, f"A replay of {group} is running: stop it first.")
    if not is_confirmed(form, group) or not letters:
        error = "Type the name of the group." if letters else "There is nothing to send."
        values = {"group": group, "reason": reason, "to": to, "ways": list(ReplayTo), "rate": rate}
        values |= {"letters": letters, "left_out": left_out, "seconds": len(letters) / rate}
        return await render(asked, "replay.html", {**values, "running": None, "error": error}, 400)
    replay = RunningReplay(group, to.value, rate, len(letters))
    asked.site.keep_replay(replay)
    work = _send(asked, replay, [each.buried for each in letters], to)
    replay.task = asyncio.create_task(work)
    return RedirectResponse(link("/dead-letters/group", name=group), 303)


async def stop_replay(request: Request) -> Response:
    asked, form = await begin_change(request)
    group = form.text("name")
    running = asked.site.replays.get(group)
    if running is not None:
        running.is_stopped = True
    return RedirectResponse(link("/dead-letters/group", name=group), 303)


def _rate(form: Form) -> int:
    text = form.text("rate")
    is_number = text.isascii() and text.isdigit() and len(text) < 6
    return min(max(int(text), 1), RATE_MAX) if is_number else round(REPLAY_RATE)


async def _send(
    asked: Asked, replay: RunningReplay, letters: list[BuriedMessage], to: ReplayTo
) -> None:
    """Send one after the other at the rate; the first failure ends it."""
    loop = asyncio.get_running_loop()
    details = f"{len(letters)} dead letters to the {to}, {replay.rate} a second"
    asked.audit("replay dead letters", replay.group, details, "begun")
    start_s = loop.time()
    try:
        for number, letter in enumerate(letters):
            await asyncio.sleep(max(0.0, start_s + number / replay.rate - loop.time()))
            if replay.is_stopped:
                break
            await asked.cluster.admin.replay(replay.group, letter, to=to)
            replay.sent += 1
    except FlintError as error:
        replay.error = sentence(error)
    finally:
        replay.is_over = True
        outcome = replay.error or ("stopped" if replay.is_stopped else "done")
        asked.audit(
            "replay dead letters", replay.group, f"{replay.sent} of {len(letters)} sent", outcome
        )
