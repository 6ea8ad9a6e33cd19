"""The same clients on asyncio: same names, awaited, from `flintmq.aio`.

    python examples/asyncio_client.py

You will see a hundred messages sent side by side, ten of them taken with `async for`, and a
question that is answered by a listener.  With NAMESRV_ADDR set it works on your cluster.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack

from flintmq import EmbeddedBroker, Message, ReceivedMessage
from flintmq.aio import Producer, PushConsumer


async def main() -> None:
    async with AsyncExitStack() as stack:
        address = os.environ.get("NAMESRV_ADDR")
        address = address or (await stack.enter_async_context(EmbeddedBroker())).namesrv
        producer = await stack.enter_async_context(Producer("shop", namesrv=address))

        sends = [producer.send(Message("orders", f"o-{n}".encode())) for n in range(100)]
        print(f"sent: {len(await asyncio.gather(*sends))}")
        await take_ten(address)
        await ask(producer, address)


async def take_ten(address: str) -> None:
    """Without a listener a consumer is iterated: a message is done when the next is asked for."""
    consumer = PushConsumer("audit", namesrv=address, start_from="first").subscribe("orders")
    taken = 0
    async with consumer:
        async for message in consumer:
            taken += message.body.startswith(b"o-")
            if taken == 10:
                break
    print(f"taken: {taken}")


async def ask(producer: Producer, address: str) -> None:
    """A request and its reply.  An ``async def`` listener runs on the loop of the program."""
    consumer = PushConsumer("sums", namesrv=address, start_from="first")

    @consumer.listener("questions")
    async def answer(messages: tuple[ReceivedMessage, ...]) -> None:
        for message in messages:
            total = sum(map(int, message.body.split()))
            await producer.reply(message, str(total).encode())

    async with consumer:
        reply = await producer.request(Message("questions", b"1 2 39"), timeout_ms=30_000)
        print(f"1 + 2 + 39 = {reply.body.decode()}")


if __name__ == "__main__":
    asyncio.run(main())
