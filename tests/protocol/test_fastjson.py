"""Whatever fastjson writes is read, and what is written is laid out as fastjson lays it out."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import MalformedBody
from flintmq.protocol.fastjson import BODY_BYTES_MAX, DEPTH_MAX, read, standard_json, write

ANYTHING = msgspec.json.Decoder()
KEY = r'"{\"b\":\"x\",\"q\":0}"'


@dataclass(frozen=True)
class Thing:
    x: int = 1
    y: str = "s"
    n: str | None = None


def fields(value: object) -> Iterable[tuple[str, object]]:
    assert isinstance(value, Thing)
    return (("n", value.n), ("x", value.x), ("y", value.y))


def compact(value: object, *, bare_keys: bool = True, ascii_only: bool = False) -> str:
    return write(value, fields, bare_keys=bare_keys, ascii_only=ascii_only).decode()


def pretty(value: object) -> str:
    return write(value, fields, pretty=True).decode()


@pytest.mark.parametrize(
    ("dialect", "standard"),
    [
        ('{0:"a",1:"b"}', '{"0":"a","1":"b"}'),
        ("{-1:5,1.5:6,true:7}", '{"-1":5,"1.5":6,"true":7}'),
        ('{{"b":"x","q":0}:5}', "{" + KEY + ":5}"),
        (
            '{ {"b" : "x", "q":0} : 5 , {"b":"x","q":0}:{0:1} }',
            "{" + KEY + ":5," + KEY + ':{"0":1}}',
        ),
        ("{{'b':'x',q:0,\"n\":null}:5}", "{" + KEY + ":5}"),
        ('{"t":{{0:1}:2}}', r'{"t":{"{\"0\":1}":2}}'),
        ("{{}:1}", '{"{}":1}'),
        ("{'it\\'s':'say \"so\" \\\\ \\n'}", '{"it\'s":"say \\"so\\" \\\\ \\n"}'),
        ('{clientID:"x"}', '{"clientID":"x"}'),
        ('{"a":1,}', '{"a":1}'),
        ("[1,null,]", "[1,null]"),
        ('{"a":null,"b":null}', "{}"),
        ('{"a":null,"b":[],"c":null,"d":{"e":null}}', '{"b":[],"d":{}}'),
        ('\r\n\t {"a":1}\n', '{"a":1}'),
        ("null", "null"),
        ("[]", "[]"),
        ('"alone"', '"alone"'),
        (r'{"{0:1,\"":"}:{\\"}', r'{"{0:1,\"":"}:{\\"}'),
    ],
)
def test_the_dialect_becomes_standard_json(dialect: str, standard: str) -> None:
    rewritten = standard_json(dialect, "body")

    assert rewritten == standard
    json.loads(rewritten)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "[",
        '{"a"',
        '{"a":',
        '{"a":1',
        '{"a":1,,"b":2}',
        "{,}",
        "[,1]",
        '{"a" 1}',
        '{"a"::1}',
        '{"a",1}',
        '{"a":1}}',
        '{"a":1]',
        '["a":1]',
        "{0}",
        "{:1}",
        "[1 2]",
        '{"a":1} x',
        '{"a":1} {}',
        "{[1]:2}",
        "{{{}:1}:2}",
        '{"a":tru}',
        "NaN",
        "'open",
        '"open\\"',
        "#",
        '{"a":+1}',
        '{"$ref":}',
    ],
)
def test_what_is_no_json_in_any_dialect_is_refused(text: str) -> None:
    with pytest.raises(MalformedBody):
        read(text.encode(), ANYTHING, "body")


def test_keys_are_told_from_text_that_looks_like_them() -> None:
    text = r'{0:"{0:1,","a":"\\","b":"\\\"{1:","c":["x,2:","{"]}'

    value = read(text.encode(), ANYTHING, "body")

    assert value == {"0": "{0:1,", "a": "\\", "b": '\\"{1:', "c": ["x,2:", "{"]}


def test_an_object_key_arrives_as_json_text() -> None:
    value = read('{{"名":"\\"q\\"","q":0}:5}'.encode(), ANYTHING, "body")

    assert [json.loads(key) for key in value] == [{"名": '"q"', "q": 0}]


def test_null_means_the_default_where_the_type_has_no_null() -> None:
    class Counted(msgspec.Struct):
        names: tuple[str, ...] = ()

    value = read(b'{"names":null}', msgspec.json.Decoder(Counted), "body")

    assert value == Counted()


@pytest.mark.parametrize("opening", ["[", '{"a":', "{0:", "{{"])
def test_bottomless_nesting_is_refused_without_recursion(opening: str) -> None:
    with pytest.raises(MalformedBody):
        read((opening * 100_000).encode(), ANYTHING, "body")


def test_nesting_over_the_limit_is_not_rewritten() -> None:
    text = "{0:" * (DEPTH_MAX + 1) + "1" + "}" * (DEPTH_MAX + 1)

    with pytest.raises(MalformedBody, match="deep"):
        read(text.encode(), ANYTHING, "body")


def test_nesting_up_to_the_limit_is_read() -> None:
    text = "{0:" * DEPTH_MAX + "1" + "}" * DEPTH_MAX

    value = read(text.encode(), ANYTHING, "body")

    for _ in range(DEPTH_MAX):
        value = value["0"]
    assert value == 1


def test_a_body_over_the_limit_is_refused_unread() -> None:
    body = b" " * (BODY_BYTES_MAX + 1)

    with pytest.raises(MalformedBody, match="limit"):
        read(body, ANYTHING, "body")
    with pytest.raises(MalformedBody, match="limit of 3"):
        read(b"[11]", ANYTHING, "body", limit_bytes=3)


def test_the_dialect_has_a_limit_of_its_own() -> None:
    standard, dialect = b'{"0":1}', b"{0:1}"

    assert read(standard, ANYTHING, "body", rewrite_bytes_max=4) == {"0": 1}
    assert read(dialect, ANYTHING, "body", rewrite_bytes_max=5) == {"0": 1}
    with pytest.raises(MalformedBody, match="too many"):
        read(dialect, ANYTHING, "body", rewrite_bytes_max=4)


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(MalformedBody):
        read(b'{0:"\xff"}', ANYTHING, "body")


@pytest.mark.parametrize(
    "text",
    ['"' + "\\\\" * 300_000, "'" + "a\\'" * 200_000, "{0:1," * 60 + "x" * 600_000, "1" * 600_000],
    ids=["open string", "open quote", "long word", "long number"],
)
def test_hostile_text_costs_no_more_than_its_length(text: str) -> None:
    with pytest.raises(MalformedBody):
        read(text.encode(), ANYTHING, "body")


@given(st.binary(max_size=60) | st.text("{}[]:,\"'\\0a1 \n-.eunltr$", max_size=60).map(str.encode))
@settings(max_examples=600, deadline=None)
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with contextlib.suppress(MalformedBody):
        read(body, ANYTHING, "body")


SCALARS = st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]))
STANDARD = st.recursive(
    SCALARS | st.none(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("aé\"'\\", max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


def without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@given(STANDARD, st.booleans())
@settings(max_examples=200, deadline=None)
def test_standard_json_keeps_its_meaning_when_rewritten(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=1)

    rewritten = standard_json(text, "body")

    assert json.loads(rewritten) == without_nulls(value)


TABLES = st.recursive(
    SCALARS.filter(lambda value: not isinstance(value, int) or abs(value) < 2**63),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.integers(-9, 99), inner, max_size=3)
        | st.dictionaries(
            st.builds(Thing, x=st.integers(0, 9), y=st.text("x\"'\\{é")), inner, max_size=3
        )
    ),
    max_leaves=12,
)


def as_read(value: object) -> object:
    """What reading makes of a written value: keys become text."""
    if isinstance(value, list):
        return [as_read(item) for item in value]
    if isinstance(value, dict):
        return {
            compact(key) if isinstance(key, Thing) else str(key): as_read(item)
            for key, item in value.items()
        }
    return value


@given(TABLES, st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_what_is_written_is_read_back(
    value: object, bare_keys: bool, ascii_only: bool, is_pretty: bool
) -> None:
    body = write(value, fields, bare_keys=bare_keys, ascii_only=ascii_only, pretty=is_pretty)

    assert canonical_keys(read(body, ANYTHING, "body")) == as_read(value)


def canonical_keys(value: object) -> object:
    """Keys that hold an object, without layout and escapes."""
    if isinstance(value, list):
        return [canonical_keys(item) for item in value]
    if isinstance(value, dict):
        return {
            compact(Thing(**json.loads(key))) if key[0] == "{" else key: canonical_keys(item)
            for key, item in value.items()
        }
    return value


def test_the_compact_form_has_no_spaces_and_no_nulls() -> None:
    value = {"a": Thing(), "b": None, "c": [1, None, 2.5], "d": {3: "x", 4: "y"}, "e": {}}

    assert compact(value) == '{"a":{"x":1,"y":"s"},"c":[1,null,2.5],"d":{3:"x",4:"y"},"e":{}}'
    assert '"d":{"3":"x","4":"y"}' in compact(value, bare_keys=False)
    assert compact({1: 2}, bare_keys=False) == '{"1":2}'


def test_scalars_are_written_as_java_writes_them() -> None:
    assert compact([True, False, 0.0, float("nan"), float("inf"), -(2**63)]) == (
        "[true,false,0.0,null,null,-9223372036854775808]"
    )
    assert compact({True: 1, 2: False}) == "{true:1,2:false}"
    assert compact(b"\x09\x00\x02") == '"CQAC"'
    assert compact('"\\/\n\x01中') == '"\\"\\\\/\\n\\u0001中"'
    assert compact("é中😀", ascii_only=True) == '"\\u00e9\\u4e2d\\ud83d\\ude00"'
    assert compact("\ud800x") == '"?x"'


def test_the_pretty_form_is_laid_out_as_fastjson_lays_it_out() -> None:
    value = {
        "beans": [Thing(), Thing()],
        "els": [],
        "im": {1: Thing(), 2: Thing()},
        "ints": (1, 2),
        "lm": {7: {"q": "w"}},
        "longs": [1, 2],
        "nm": {0: 120, 1: 118},
        "om": {Thing(): 5, Thing(2): Thing()},
        "set": (Thing(), Thing()),
        "sm": {},
    }

    text = pretty(value)

    assert text == FASTJSON_LAYOUT.strip().replace("    ", "\t")


FASTJSON_LAYOUT = """
{
    "beans":[
        {
            "x":1,
            "y":"s"
        },
        {
            "x":1,
            "y":"s"
        }
    ],
    "els":[],
    "im":{1:{
            "x":1,
            "y":"s"
        },2:{
            "x":1,
            "y":"s"
        }
    },
    "ints":[1,2],
    "lm":{7:{
            "q":"w"
        }
    },
    "longs":[
        1,
        2
    ],
    "nm":{0:120,1:118
    },
    "om":{{
            "x":1,
            "y":"s"
        }:5,{
            "x":2,
            "y":"s"
        }:{
            "x":1,
            "y":"s"
        }
    },
    "set":[{
        "x":1,
        "y":"s"
    },{
        "x":1,
        "y":"s"
    }],
    "sm":{}
}
"""
