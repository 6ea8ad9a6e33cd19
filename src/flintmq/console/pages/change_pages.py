"""Changes to offsets and topics: each is shown first, and made once its name is typed.

A reset can be looked at in a console that reads only: the preview asks, and changes nothing.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from flintmq.console.guard.forms import Form
from flintmq.console.pages.changing import begin_change, is_confirmed, require_changes
from flintmq.console.showing.asked import Asked
from flintmq.console.showing.page import Values, render, sentence
from flintmq.console.showing.templates import link
from flintmq.core.admin.offsets import ResetPlan
from flintmq.core.admin.spans import read_target
from flintmq.core.admin.topics import TopicKind
from flintmq.errors import FlintError, InvalidSetting

TYPE_THE_NAME = "Type the name exactly to confirm."

# Offsets of a group


async def load_reset(asked: Asked) -> Values:
    """The preview: where the group stands in each queue, and where it would go."""
    group, topic, to = asked.text("name"), asked.text("topic"), asked.text("to")
    lag = await asked.cluster.lag(group)
    topics = sorted({each.queue.topic for each in lag.queues})
    plan = await _plan(asked, group, topic, to) if topic and to else None
    return _reset_values(group, topic, to, topics, plan)


async def _plan(asked: Asked, group: str, topic: str, to: str) -> ResetPlan:
    target = read_target(to, asked.site.wall())
    return await asked.cluster.admin.plan_reset(group, topic, target)


def _reset_values(
    group: str, topic: str, to: str, topics: list[str], plan: ResetPlan | None, error: str = ""
) -> dict[str, Any]:
    moves = () if plan is None else plan.moves
    return {
        "group": group,
        "topic": topic,
        "to": to,
        "topics": topics,
        "plan": plan,
        "again": sum(max(0, each.again) for each in moves),
        "skipped": sum(max(0, -each.again) for each in moves),
        "error": error,
    }


async def apply_reset(request: Request) -> Response:
    """POST: go where a fresh plan leads."""
    asked, form = await begin_change(request)
    group, topic, to = form.text("name"), form.text("topic"), form.text("to")
    plan = await _plan(asked, group, topic, to)
    if not is_confirmed(form, group):
        values = _reset_values(group, topic, to, [topic], plan, TYPE_THE_NAME)
        return await render(asked, "reset.html", values, 400)
    details = f"{topic} to {to}: " + ", ".join(
        f"{each.queue.broker}/{each.queue.queue_id} {each.stands_at} to {each.goes_to}"
        for each in plan.moves
    )
    with asked.audited("reset offsets", group, details):
        await asked.cluster.admin.apply_reset(plan)
    asked.cluster.forget()
    return RedirectResponse(link("/group", name=group), 303)


# Topics


async def load_new_topic(asked: Asked) -> Values:
    require_changes(asked)
    await asked.cluster.names()
    return {"name": asked.text("name"), "queues": "8", "error": ""}


async def create_topic(request: Request) -> Response:
    asked, form = await begin_change(request)
    name, queues = form.text("name"), form.text("queues")
    try:
        count = _queue_count(form)
        if not is_confirmed(form, name):
            raise InvalidSetting("confirm", form.text("confirm"), TYPE_THE_NAME)
        with asked.audited("create topic", name, f"{count} queues"):
            await asked.cluster.admin.create_topic(name, queues=count)
    except FlintError as error:
        values = {"name": name, "queues": queues, "error": sentence(error)}
        return await render(asked, "new_topic.html", values, 400)
    asked.cluster.forget()
    return RedirectResponse(link("/topic", name=name), 303)


def _queue_count(form: Form) -> int:
    text = form.text("queues")
    if not (text.isascii() and text.isdigit() and len(text) < 6):
        raise InvalidSetting("queues", text, "give a number")
    return int(text)


async def load_delete_topic(asked: Asked) -> Values:
    """What would go with a topic."""
    require_changes(asked)
    name = asked.text("name")
    return {**await _doomed(asked, name), "error": ""}


async def _doomed(asked: Asked, name: str) -> dict[str, Any]:
    detail = await asked.cluster.topic_detail(name)
    queues = await asked.cluster.topic_queues(name)
    known = {each.name: each.kind for each in await asked.cluster.topics()}
    return {
        "name": name,
        "detail": detail,
        "messages": sum(each.count for each in queues),
        "is_system": known.get(name) is TopicKind.SYSTEM,
    }


async def delete_topic(request: Request) -> Response:
    asked, form = await begin_change(request)
    name = form.text("name")
    doomed = await _doomed(asked, name)
    error = "" if is_confirmed(form, name) else TYPE_THE_NAME
    if doomed["is_system"]:
        error = "It belongs to the brokers and stays."
    if error:
        return await render(asked, "delete_topic.html", {**doomed, "error": error}, 400)
    with asked.audited("delete topic", name, f"{doomed['messages']} messages"):
        await asked.cluster.admin.delete_topic(name)
    asked.cluster.forget()
    return RedirectResponse("/topics", 303)
