"""Tests of reading what an embedding server answered."""

import base64
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs_rag.replies import ReplyError, error_text, read_reply


def body(*items: Any, **extra: Any) -> bytes:
    return json.dumps({"data": list(items), **extra}).encode()


def item(index: Any, embedding: Any) -> dict[str, Any]:
    return {"object": "embedding", "index": index, "embedding": embedding}


def test_vectors_come_back_by_index_and_of_length_one() -> None:
    """The server's order does not matter, its indexes do."""
    reply = read_reply(body(item(1, [0, 5]), item(0, [3, 4])), 2)

    assert np.allclose(reply.rows, [[0.6, 0.8], [0.0, 1.0]])
    assert (reply.rows.dtype, reply.width, reply.faults) == (np.float32, 2, {})


def test_base64_is_read_as_little_endian_floats() -> None:
    """Some servers answer in base64 whether asked to or not."""
    text = base64.b64encode(struct.pack("<2f", 3, 4)).decode()

    assert np.allclose(read_reply(body(item(0, text)), 1).rows, [[0.6, 0.8]])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"<html>Not here</html>", "not JSON"),
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", 'without a "data" list'),
        (b'{"data": {}}', 'without a "data" list'),
        (b'{"error": "Unexpected endpoint"}', "Unexpected endpoint"),
        (body(item(0, [1, 2])), "1 vectors for 2 texts"),
        (body(*[item(i, [1, 2]) for i in range(3)]), "3 vectors for 2 texts"),
        (body(item(0, [1, 2]), item(0, [1, 2])), "two vectors with index 0"),
        (body(item(0, [1, 2]), {"embedding": [1, 2]}), "without a valid index"),
        (body(item(0, [1, 2]), item(2, [1, 2])), "without a valid index"),
        (body(item(0, [1, 2]), item(-1, [1, 2])), "without a valid index"),
        (body(item(0, [1, 2]), item("1", [1, 2])), "without a valid index"),
        (body(item(0, [1, 2]), item(True, [1, 2])), "without a valid index"),
        (body(item(0, [1, 2]), [1, 2]), "without a valid index"),
        (body(item(0, [1, 2]), item(1, [1, 2, 3])), "different widths"),
    ],
)
def test_a_reply_in_doubt_is_refused_whole(answer: bytes, reason: str) -> None:
    """Where it is unclear which vector is whose, none is believed."""
    with pytest.raises(ReplyError, match=reason):
        read_reply(answer, 2)


@pytest.mark.parametrize(
    ("embedding", "reason"),
    [
        (None, "no vector"),
        ([], "no vector"),
        ({"values": [1]}, "no vector"),
        ([1, None], "null or text"),
        ([1, "2"], "null or text"),
        ([1, True], "null or text"),
        ([1, float("nan")], "NaN or infinity"),
        ([1, float("inf")], "NaN or infinity"),
        ([1, 10**400], "beyond all range"),
        ([0, 0.0], "zero vector"),
        ("AAAA", "truncated base64"),
        ("not base64!", "text for a vector"),
    ],
)
def test_an_unusable_vector_is_named_and_spares_the_others(
    embedding: Any, reason: str
) -> None:
    """One bad vector is a fault of its text, by position; the rest is usable."""
    reply = read_reply(body(item(0, [3, 4]), item(1, embedding)), 2)

    assert list(reply.faults) == [1]
    assert reason in reply.faults[1]
    assert np.allclose(reply.rows[0], [0.6, 0.8])


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"total_tokens": 7, "prompt_tokens": 6}, 7),
        ({"prompt_tokens": 6}, 6),
        ({"total_tokens": "7"}, None),
        ({"total_tokens": -1}, None),
        (None, None),
        ([], None),
    ],
)
def test_tokens_are_reported_where_the_server_tells(
    usage: Any, tokens: int | None
) -> None:
    """A usage that makes no sense is no usage."""
    assert read_reply(body(item(0, [1, 1]), usage=usage), 1).tokens == tokens


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b'{"error": {"message": "no such\\nmodel"}}', "no such model"),
        (b'{"error": "boom"}', "boom"),
        (b'{"detail": [{"msg": "too long"}]}', '[{"msg": "too long"}]'),
        (b'{"message": "hm"}', "hm"),
        (b"plain\x1b[31m \xff text", "plain [31m \ufffd text"),
        (b"", ""),
        (b"null", "null"),
    ],
)
def test_an_error_is_found_in_the_shapes_servers_use(answer: bytes, text: str) -> None:
    """What a server says comes out as one printable line."""
    assert error_text(answer) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["data", "index", "embedding", "usage", "error"]), inner
        )
    ),
    max_leaves=12,
)


@given(JSON, st.integers(1, 3))
def test_any_json_is_read_or_refused(answer: Any, count: int) -> None:
    """Whatever is answered, rows are unit vectors or faults, or all is refused."""
    raw = json.dumps(answer).encode()
    error_text(raw)
    try:
        reply = read_reply(raw, count)
    except ReplyError:
        return
    good = [row for i, row in enumerate(reply.rows) if i not in reply.faults]

    assert len(reply.rows) == count
    assert all(abs(np.linalg.norm(row) - 1) < 1e-5 for row in good)
