"""A worker like Celery's: functions are tasks, calls are messages, failures are retried.

    python examples/task_worker.py

You will see two mails sent, one of them at its third try, and a task that is given up after its
retries and kept as a dead letter.
"""

import json
from collections.abc import Callable
from typing import Any

from flintmq import App, DeadLetter, EmbeddedBroker, Message, Producer, ReceivedMessage, Retry

BACKOFF = (1, 1)  # delay levels of the retries: one second each; then it is a dead letter
Task = Callable[..., None]

app = App("task-workers", start_from="first", retry_max=len(BACKOFF))
tasks: dict[str, Task] = {}
ended: list[str] = []


def task(function: Task) -> Task:
    return tasks.setdefault(function.__name__, function)


def delay(producer: Producer, function: Task, **arguments: Any) -> None:
    """Have a worker call the function.  Its name is the tag: workers may subscribe to some."""
    producer.send(Message("tasks", json.dumps(arguments).encode(), tags=function.__name__))


@app.listener("tasks")  # one message a call, on up to 20 threads
def work(messages: tuple[ReceivedMessage, ...]) -> None:
    (message,) = messages
    attempt = message.reconsume_times + 1
    try:
        tasks[message.tags or ""](attempt, **json.loads(message.body))
        ended.append("done")
    except Exception as error:
        if attempt <= len(BACKOFF):
            raise Retry(BACKOFF[attempt - 1], reason=str(error)) from error
        ended.append(f"{message.tags} is given up at try {attempt}: {error}")
        raise DeadLetter(str(error)) from error


@task
def send_mail(attempt: int, to: str) -> None:
    if to == "bob" and attempt < 3:
        raise ConnectionError("the mail server does not answer")
    print(f"mail to {to} sent at try {attempt}")


if __name__ == "__main__":
    with EmbeddedBroker() as broker, broker.producer("web") as web, broker.running(app):
        for name in ("ann", "bob"):
            delay(web, send_mail, to=name)
        delay(web, print, file="no file")  # a worker has no such task
        broker.wait_for(lambda: len(ended) == 3, timeout_s=30)
        print(*(text for text in ended if text != "done"))
