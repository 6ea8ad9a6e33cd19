"""The program: `flintmq run billing:app`, with the name server in NAMESRV_ADDR."""

from flintmq import App, DeadLetter, ReceivedMessage

app = App("billing", start_from="first", retry_max=2)
billed: list[str] = []


def charge(order: str) -> None:
    """Asks the bank, which may not answer."""
    billed.append(order)


@app.listener("orders")
def bill(messages: tuple[ReceivedMessage, ...]) -> None:
    for message in messages:
        if not message.keys:
            raise DeadLetter("an order without a key")
        charge(message.keys[0])
