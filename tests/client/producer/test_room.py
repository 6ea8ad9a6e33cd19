"""A room holds so many sends and no more, and whoever waited longest comes in first."""

from __future__ import annotations

import asyncio

from flintmq.client.producer.room import Room


def test_a_place_passes_to_whoever_waits_and_not_to_one_who_left() -> None:
    async def play() -> list[str]:
        room, inside = Room(1), []

        async def enter(name: str) -> None:
            await room.enter()
            inside.append(name)

        await enter("a")
        assert not room.enter_now()
        waiting = [asyncio.create_task(enter(name)) for name in "bcd"]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.gather(*waiting[:1], return_exceptions=True)
        room.leave()
        await waiting[1]
        assert not room.enter_now()
        room.leave()
        waiting[2].cancel()  # after the place was given to it
        await asyncio.gather(*waiting[2:], return_exceptions=True)
        await asyncio.wait_for(room.wait_empty(), 60)
        return inside

    assert asyncio.run(play()) == ["a", "c"]


def test_waiting_for_an_empty_room_ends_with_the_last_send() -> None:
    async def play() -> None:
        room = Room(2)
        await room.enter()
        await room.enter()
        empty = asyncio.create_task(room.wait_empty())
        await asyncio.sleep(0)
        room.leave()
        await asyncio.sleep(0)
        assert not empty.done()
        room.leave()
        await asyncio.wait_for(empty, 60)

    asyncio.run(play())
