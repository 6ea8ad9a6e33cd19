"""Django: a management command that consumes, and a view or a signal that sends.

    python examples/django_command.py

You will see three orders stored by the command as rows of a table.  In a project the class is
`shop/management/commands/consume.py`, run with `python manage.py consume`.  Needs django.
"""

import os
import tempfile
from typing import Any

import django
from django.conf import settings
from django.core.management import BaseCommand, call_command
from django.db import close_old_connections, connection, models

from flintmq import App, EmbeddedBroker, Message, Producer, ReceivedMessage

if not settings.configured:  # a project has this in its settings.py
    place = tempfile.mkdtemp() + "/shop.sqlite3"
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": place}
    settings.configure(DATABASES={"default": database})
    django.setup()


class Order(models.Model):
    key = models.CharField(max_length=64, unique=True)  # a message may be delivered twice

    class Meta:
        app_label = "shop"


app = App("shop", start_from="first", threads_max=4)  # the name server is NAMESRV_ADDR


@app.listener("django-orders", batch_max=32)
def store(messages: tuple[ReceivedMessage, ...]) -> None:
    close_old_connections()  # as Django does for each request: threads live longer than connections
    rows = (Order(key=message.keys[0]) for message in messages)
    Order.objects.bulk_create(rows, ignore_conflicts=True)
    if Order.objects.count() == 3:
        app.stop()  # only here: yours runs until it is told to stop


class Command(BaseCommand):
    def handle(self, *_: Any, **__: Any) -> None:
        app.run()
        self.stdout.write(f"{Order.objects.count()} orders in the table")


if __name__ == "__main__":
    with connection.schema_editor() as editor:
        editor.create_model(Order)
    with EmbeddedBroker() as broker, Producer("web", namesrv=broker.namesrv) as producer:
        os.environ["NAMESRV_ADDR"] = broker.namesrv
        for key in ("o-1", "o-2", "o-3"):
            producer.send(Message("django-orders", b"{}", keys=key))
        call_command(Command())
