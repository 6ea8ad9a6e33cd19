"""What one group wants of one topic, and three bodies that hold little else."""

from __future__ import annotations

from flintmq.protocol.bodies.body import Body, RequestBody
from flintmq.protocol.fields import Int32, Int64

TAG = "TAG"
SQL92 = "SQL92"


class Subscription(Body, frozen=True, kw_only=True):
    """One subscription.

    ``sub_version`` tells newer from older: milliseconds from most clients, nanoseconds from
    Go, a decimal text from C++.  ``code_set`` holds the Java hash of every tag; C++ fills it
    with zeros and Node may leave it out, so a broker does better to work it out itself.
    """

    class_filter_mode: bool = False
    code_set: tuple[Int32, ...] = ()
    expression_type: str = TAG
    sub_string: str = "*"
    sub_version: Int64 = 0
    tags_set: tuple[str, ...] = ()
    topic: str

    @property
    def is_tag(self) -> bool:
        """Whether ``sub_string`` is a list of tags and not SQL.  Old clients name no type."""
        return self.expression_type in (TAG, "")


class CheckClientConfig(RequestBody, frozen=True, kw_only=True):
    """Request 46: would the broker take this subscription?"""

    client_id: str
    group: str
    namespace: str | None = None
    subscription_data: Subscription


class GroupSubscription(Body, frozen=True, kw_only=True):
    """Answer to 345: what a group wants of a topic."""

    group: str
    subscription_data: Subscription | None = None
    topic: str


class ConsumerIds(Body, frozen=True, kw_only=True):
    """Answer to 38: the members of a group."""

    consumer_id_list: tuple[str, ...] = ()
