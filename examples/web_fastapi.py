"""FastAPI: a producer and the listeners of an app live as long as the web server.

    python examples/web_fastapi.py       or       uvicorn web_fastapi:api --app-dir examples

You will see an order posted and billed in one process.  Needs fastapi, httpx, NAMESRV_ADDR.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI, HTTPException

from flintmq import App, EmbeddedBroker, FlintError, Message, ReceivedMessage
from flintmq.aio import Producer

app = App("web-billing", start_from="first")  # like the producer, it reads NAMESRV_ADDR
billed = asyncio.Semaphore(0)


@app.listener("web-orders")
async def bill(messages: tuple[ReceivedMessage, ...]) -> None:
    print("billed:", ", ".join(message.body.decode() for message in messages))
    billed.release()  # on the loop of the web server: a listener awaits, and never blocks


@asynccontextmanager
async def lifespan(api: FastAPI) -> AsyncIterator[None]:
    """Starts before the first request and stops after the last one."""
    async with Producer("web") as producer, app:  # from the first request to the last
        api.state.producer = producer
        yield


api = FastAPI(lifespan=lifespan)


@api.post("/orders/{order}", status_code=202)
async def create(order: str) -> dict[str, str]:
    try:
        message = Message("web-orders", order.encode(), keys=order)
        return {"id": (await api.state.producer.send(message)).message_id}
    except FlintError as error:  # the order may be stored all the same
        raise HTTPException(503, str(error)) from error


async def try_it() -> None:
    web = httpx.ASGITransport(api)
    async with lifespan(api), httpx.AsyncClient(transport=web, base_url="http://shop") as client:
        print((await client.post("/orders/o-1")).status_code)
        await asyncio.wait_for(billed.acquire(), 30)


if __name__ == "__main__":
    with EmbeddedBroker() as broker:
        os.environ["NAMESRV_ADDR"] = broker.namesrv
        asyncio.run(try_it())
