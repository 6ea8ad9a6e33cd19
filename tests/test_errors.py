"""Every error survives pickling with its fields, and says in words what went wrong."""

from __future__ import annotations

import inspect
import pickle

import pytest

from flintmq import errors
from flintmq.errors import FlintError

SAMPLES: dict[str, object] = {"int": 7, "str": "a text"}


EVERY_ERROR = [
    kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, FlintError)
]
WITH_FIELDS = [kind for kind in EVERY_ERROR if kind.__init__ is not Exception.__init__]


def sample(kind: type[FlintError]) -> FlintError:
    """An error of this class with a value of the right type for every parameter."""
    if kind not in WITH_FIELDS:
        return kind("a text")
    parameters = list(inspect.signature(kind).parameters.values())
    return kind(*(SAMPLES[parameter.annotation] for parameter in parameters))


@pytest.mark.parametrize("kind", EVERY_ERROR, ids=lambda kind: kind.__name__)
def test_an_error_survives_pickling(kind: type[FlintError]) -> None:
    error = sample(kind)

    again = pickle.loads(pickle.dumps(error))

    assert type(again) is kind
    assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize("kind", EVERY_ERROR, ids=lambda kind: kind.__name__)
def test_an_error_reads_as_a_sentence_with_its_values(kind: type[FlintError]) -> None:
    error = sample(kind)

    text = str(error)

    assert "a text" in text or "7" in text
    assert not text.startswith("(")


@pytest.mark.parametrize("kind", WITH_FIELDS, ids=lambda kind: kind.__name__)
def test_an_error_gives_its_parameters_as_fields(kind: type[FlintError]) -> None:
    names = list(inspect.signature(kind).parameters)

    error = sample(kind)

    assert tuple(getattr(error, name) for name in names) == error.args


@pytest.mark.parametrize("kind", EVERY_ERROR, ids=lambda kind: kind.__name__)
def test_an_error_stands_in_the_tree_of_the_module(kind: type[FlintError]) -> None:
    assert kind.__name__ in (errors.__doc__ or "")


def test_only_what_may_pass_by_itself_is_worth_another_try() -> None:
    retriable = {kind for kind in EVERY_ERROR if kind.retriable}

    assert {errors.Unreachable, errors.Overloaded} <= retriable
    assert not any(issubclass(kind, errors.RemoteProtocolError) for kind in retriable)
    assert not any(kind.__name__.startswith("Invalid") for kind in retriable)


def test_a_filter_error_points_at_its_column() -> None:
    error = errors.InvalidExpression("a = 1\nAND b ==", 14, "an operator too many")

    assert str(error) == "an operator too many (column 14)\n  AND b ==\n         ^"


def test_a_bad_header_names_its_field_when_it_has_one() -> None:
    missing = errors.MalformedHeader("queueId", "is missing")
    broken = errors.MalformedHeader("", "is not JSON")

    assert (str(missing), str(broken)) == ("header field queueId: is missing", "is not JSON")


def test_a_refusal_names_the_broker_when_it_is_known() -> None:
    assert str(errors.BrokerRefused(17, "no topic")) == "broker answered 17: no topic"
    assert str(errors.BrokerRefused(17, "no topic", "h:1")) == "h:1 answered 17: no topic"
