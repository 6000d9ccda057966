"""Tests of the embedder behind an HTTP endpoint, against a server on loopback."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from fake_endpoint import (
    Answer,
    Call,
    FakeEndpoint,
    embeddings,
    fake_endpoint,
    healthy,
    word_vector,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from docs_rag.endpoint import EndpointError, Pace
from docs_rag.errors import EmbeddingError, TextRefusedError
from docs_rag.records import Purpose, Secret
from docs_rag.remote import (
    BATCH_CHARS,
    BATCH_TEXTS,
    MOST_PHRASINGS,
    HttpEmbedder,
    estimate_tokens,
    nonsense_words,
    rare_letters,
)
from docs_rag.retrieval import MAX_ALSO

TOOLS = [f"the {name} is on the shelf" for name in ("awl", "brace", "emery", "drill")]
EMERY = 2
NO_WAITING = Pace(sleep=lambda seconds: None)


@pytest.fixture
def server() -> Iterator[FakeEndpoint]:
    with fake_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def embedder(server: FakeEndpoint) -> Iterator[HttpEmbedder]:
    one = HttpEmbedder(server.base_url, "some-model", Secret("k"), NO_WAITING)
    yield one
    one.close()


def like(text: str) -> np.ndarray:
    vector = np.array(word_vector(text))
    return vector / np.linalg.norm(vector)


def holding(word: str, answer: Callable[[Call], Answer]) -> Callable[[Call], Answer]:
    """Return a rule: ``answer`` where a text holds ``word``, else healthy."""
    return lambda call: (
        answer(call) if any(word in text for text in call.texts) else healthy(call)
    )


def test_texts_are_embedded_in_order_and_in_batches(
    server: FakeEndpoint, embedder: HttpEmbedder
) -> None:
    """Batches are bounded, and the vectors are those of the texts, unit and float32."""
    texts = [f"word{number}" for number in range(2 * BATCH_TEXTS + 3)]

    batch = embedder.embed(texts, Purpose.PASSAGE)

    assert server.batch_sizes == [BATCH_TEXTS, BATCH_TEXTS, 3]
    assert batch.vectors.dtype == np.float32
    assert np.allclose(batch.vectors, [like(text) for text in texts], atol=1e-6)
    assert batch.tokens == len(texts)


def test_a_batch_is_bounded_in_characters(
    server: FakeEndpoint, embedder: HttpEmbedder
) -> None:
    """Long texts share a request with few others, and a very long one with none."""
    half = "x" * (BATCH_CHARS // 2)

    embedder.embed([half, half, half, half * 3, "x"], Purpose.PASSAGE)

    assert server.batch_sizes == [2, 1, 1, 1]


def test_nothing_to_embed_asks_nothing(
    server: FakeEndpoint, embedder: HttpEmbedder
) -> None:
    """No texts, no request, no vectors."""
    assert embedder.embed([], Purpose.PASSAGE).vectors.shape == (0, 0)
    assert server.calls == []


def test_a_family_gets_its_prefixes(server: FakeEndpoint) -> None:
    """Query and passage are sent with the words the model was trained on."""
    embedder = HttpEmbedder(server.base_url, "nomic-embed-text", Secret(""))
    embedder.embed(["rope"], Purpose.QUERY)
    embedder.embed(["rope"], Purpose.PASSAGE)
    embedder.close()

    assert [call.texts for call in server.calls] == [
        ["search_query: rope"],
        ["search_document: rope"],
    ]
    assert embedder.identity.query_prefix == "search_query: "
    assert embedder.count("rope") == estimate_tokens("search_document: rope")


def test_models_of_one_server_are_different_spaces(server: FakeEndpoint) -> None:
    """The fingerprint tells two models apart, whatever their width."""
    first, second = (
        HttpEmbedder(server.base_url, name, Secret("")) for name in ("first", "second")
    )

    assert first.identity.fingerprint != second.identity.fingerprint
    assert second.identity.model == "second"


@pytest.mark.parametrize(
    "text", ["", " \n", "\x00\x01", "\ud800", "a\x00b", "\u2028", "\U0001f600"]
)
def test_odd_texts_are_sent_in_a_form_a_server_takes(
    server: FakeEndpoint, embedder: HttpEmbedder, text: str
) -> None:
    """Nothing blank, no NUL and no half of a surrogate pair goes over the wire."""
    vectors = embedder.embed([text], Purpose.PASSAGE).vectors

    (sent,) = server.calls[0].texts
    assert sent.strip()
    assert "\x00" not in sent
    assert np.isclose(np.linalg.norm(vectors), 1)


def test_a_rate_limit_is_waited_out(
    server: FakeEndpoint, embedder: HttpEmbedder
) -> None:
    """After two 429 answers the same batch is embedded and nothing is lost."""
    server.answer_in_turn(*[Answer("slow down", 429, {"Retry-After": "1"})] * 2)

    vectors = embedder.embed(TOOLS, Purpose.PASSAGE).vectors

    assert len(vectors) == len(TOOLS)
    assert server.batch_sizes == [4, 4, 4]


@pytest.mark.parametrize("limited", range(4), ids=lambda number: f"request-{number}")
@pytest.mark.parametrize("status", [429, 503])
def test_every_request_of_an_indexing_run_is_worth_a_wait(
    server: FakeEndpoint, embedder: HttpEmbedder, limited: int, status: int
) -> None:
    """A server that asks to wait is waited for, while probing and embedding alike."""
    healthy_calls = [healthy] * limited
    server.answer_in_turn(*healthy_calls, *[Answer("slow down", status)] * 4)

    assert embedder.probe().dimension == 64
    assert len(embedder.embed(TOOLS, Purpose.PASSAGE).vectors) == len(TOOLS)

    probing_and_embedding = 3 + 1
    assert len(server.calls) == probing_and_embedding + 4


def test_a_rate_limit_does_not_hide_which_text_is_to_blame(
    server: FakeEndpoint, embedder: HttpEmbedder
) -> None:
    """The request that shows a server alive is worth a wait, too."""
    limits = [Answer("slow down", 429)] * 2

    def rule(call: Call) -> Answer:
        if any("emery" in text for text in call.texts):
            return Answer("boom", 400)
        return limits.pop() if limits else healthy(call)

    server.rule = rule

    with pytest.raises(TextRefusedError) as caught:
        embedder.embed(TOOLS, Purpose.PASSAGE)

    assert caught.value.position == EMERY
    assert not limits


def test_a_text_that_breaks_a_server_is_not_probed_for_long(
    server: FakeEndpoint, embedder: HttpEmbedder
) -> None:
    """What the length of a text may have caused is tried twice and no more."""
    tries: dict[str, int] = {}

    def rule(call: Call) -> Answer:
        if max(map(len, call.texts)) < 2_000:
            return healthy(call)
        key = " ".join(call.texts)
        tries[key] = tries.get(key, 0) + 1
        return Answer("boom", 500)

    server.rule = rule

    assert embedder.probe().window is not None
    assert set(tries.values()) == {2}


def test_a_lasting_rate_limit_is_no_fault_of_a_text(
    server: FakeEndpoint, embedder: HttpEmbedder
) -> None:
    """It ends the call with the server's error, not with a text to blame."""
    server.rule = lambda call: Answer("slow down", 429)

    with pytest.raises(EndpointError, match="answered 429"):
        embedder.embed(TOOLS, Purpose.PASSAGE)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda call: Answer({"error": "boom"}, 500),
        lambda call: Answer({"error": "unsupported value: NaN"}, 500),
        lambda call: Answer({"error": "input too long"}, 400),
        lambda call: Answer("", 413),
        lambda call: Answer("", 422),
        lambda call: embeddings(
            [
                [float("nan")] * 64 if "emery" in text else word_vector(text)
                for text in call.texts
            ]
        ),
        lambda call: embeddings(
            [None if "emery" in text else word_vector(text) for text in call.texts]
        ),
        lambda call: embeddings(
            [
                [0.0] * 64 if "emery" in text else word_vector(text)
                for text in call.texts
            ]
        ),
    ],
    ids=["500", "500-nan", "400", "413", "422", "nan", "null", "zero"],
)
def test_the_text_at_fault_is_named_and_the_others_can_be_embedded(
    server: FakeEndpoint, embedder: HttpEmbedder, spoil: Callable[[Call], Answer]
) -> None:
    """One text that a server cannot embed is found in its batch by position."""
    server.rule = holding("emery", spoil)

    with pytest.raises(TextRefusedError) as caught:
        embedder.embed(TOOLS, Purpose.PASSAGE)

    assert caught.value.position == EMERY
    others = TOOLS[:EMERY] + TOOLS[EMERY + 1 :]
    assert len(embedder.embed(others, Purpose.PASSAGE).vectors) == len(others)


def test_the_position_counts_over_all_batches(
    server: FakeEndpoint, embedder: HttpEmbedder
) -> None:
    """A fault in the second batch is named by its place in the whole call."""
    server.rule = holding("emery", lambda call: Answer("boom", 500))
    texts = ["plain"] * (BATCH_TEXTS + 5) + ["emery"] + ["plain"] * 4

    with pytest.raises(TextRefusedError) as caught:
        embedder.embed(texts, Purpose.PASSAGE)

    assert caught.value.position == BATCH_TEXTS + 5


def test_a_batch_too_large_is_divided(
    server: FakeEndpoint, embedder: HttpEmbedder
) -> None:
    """A server that takes three texts a request gets halves until it does."""
    server.rule = lambda call: (
        Answer("too many inputs", 413) if len(call.texts) > 3 else healthy(call)
    )
    texts = [f"word{number}" for number in range(10)]

    vectors = embedder.embed(texts, Purpose.PASSAGE).vectors

    assert np.allclose(vectors, [like(text) for text in texts], atol=1e-6)


def test_a_vector_spoilt_only_in_company_is_asked_for_alone(
    server: FakeEndpoint, embedder: HttpEmbedder
) -> None:
    """A text that fails in a batch and not alone keeps its vector."""
    server.rule = lambda call: embeddings(
        [
            [float("nan")] * 64
            if "emery" in text and len(call.texts) > 1
            else word_vector(text)
            for text in call.texts
        ]
    )

    vectors = embedder.embed(TOOLS, Purpose.PASSAGE).vectors

    assert np.allclose(vectors, [like(text) for text in TOOLS], atol=1e-6)


@pytest.mark.parametrize("status", [400, 500])
def test_a_server_that_refuses_everything_blames_no_text(
    server: FakeEndpoint, embedder: HttpEmbedder, status: int
) -> None:
    """A wrong model name or a broken server costs one more request, not a search."""
    server.rule = lambda call: Answer({"error": "no such model"}, status)

    with pytest.raises(EndpointError, match="no such model"):
        embedder.embed(TOOLS, Purpose.PASSAGE)

    assert server.batch_sizes[-1] == 1
    assert server.batch_sizes.count(1) == 1


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_wrong_setting_fails_with_the_first_request(
    server: FakeEndpoint, embedder: HttpEmbedder, status: int
) -> None:
    """Key, address and model name are not mended by asking again."""
    server.rule = lambda call: Answer("no", status)

    with pytest.raises(EmbeddingError, match=f"answered {status}"):
        embedder.embed(TOOLS, Purpose.PASSAGE)

    assert len(server.calls) == 1


def test_another_width_than_before_is_refused(
    server: FakeEndpoint, embedder: HttpEmbedder
) -> None:
    """A server that switches models in the middle of a run does not mix spaces."""
    embedder.embed(["one"], Purpose.PASSAGE)
    server.rule = lambda call: embeddings([word_vector(t, 32) for t in call.texts])

    with pytest.raises(EmbeddingError, match="width 32 after vectors of width 64"):
        embedder.embed(["two"], Purpose.PASSAGE)


def test_a_refused_query_is_not_investigated(
    server: FakeEndpoint, embedder: HttpEmbedder
) -> None:
    """Somebody waits: a query that fails has failed after its two tries."""
    server.rule = lambda call: Answer("boom", 500)

    with pytest.raises(EmbeddingError, match="boom"):
        embedder.embed(["rope"], Purpose.QUERY)

    assert len(server.calls) == 2


def test_a_question_with_all_its_phrasings_is_waited_for(
    server: FakeEndpoint, embedder: HttpEmbedder
) -> None:
    """However many phrasings a question has, somebody waits: two tries."""
    server.rule = lambda call: Answer("slow down", 429)

    with pytest.raises(EndpointError, match="answered 429"):
        embedder.embed(["rope"] * (1 + MAX_ALSO), Purpose.QUERY)

    assert len(server.calls) == 2
    assert 1 + MAX_ALSO <= MOST_PHRASINGS


def test_many_questions_at_once_have_the_patience_of_an_index(
    server: FakeEndpoint, embedder: HttpEmbedder
) -> None:
    """Nobody waits for a calibration, so a rate limit does not end the run."""
    server.answer_in_turn(*[Answer("slow down", 429)] * 4)
    questions = [f"where is tool {number}" for number in range(MOST_PHRASINGS + 1)]

    vectors = embedder.embed(questions, Purpose.QUERY).vectors

    assert np.allclose(vectors, [like(text) for text in questions], atol=1e-6)
    assert len(server.calls) == 5


def test_of_many_questions_the_one_at_fault_is_named(
    server: FakeEndpoint, embedder: HttpEmbedder
) -> None:
    """With time to find out, a server that refuses everything is no text's fault."""
    questions = [f"where is tool {number}" for number in range(MOST_PHRASINGS + 1)]
    server.rule = holding("tool 7", lambda call: Answer("boom", 400))
    with pytest.raises(TextRefusedError) as caught:
        embedder.embed(questions, Purpose.QUERY)
    assert caught.value.position == 7

    server.rule = lambda call: Answer("no such model", 400)
    with pytest.raises(EndpointError, match="no such model"):
        embedder.embed(questions, Purpose.QUERY)


def test_probing_a_server_that_reads_everything_takes_three_requests(
    server: FakeEndpoint, embedder: HttpEmbedder
) -> None:
    """Without a window there is nothing to search for."""
    capacity = embedder.probe()

    assert (capacity.dimension, capacity.window) == (64, None)
    assert len(server.calls) == 3


def cutting_characters(limit: int) -> Callable[[Call], Answer]:
    return lambda call: embeddings([word_vector(text[:limit]) for text in call.texts])


def cutting_words(limit: int) -> Callable[[Call], Answer]:
    return lambda call: embeddings(
        [word_vector(" ".join(text.split()[:limit])) for text in call.texts]
    )


def refusing_characters(limit: int, status: int) -> Callable[[Call], Answer]:
    return lambda call: (
        Answer({"error": "input is too long"}, status)
        if any(len(text) > limit for text in call.texts)
        else healthy(call)
    )


@pytest.mark.parametrize(
    ("rule", "least", "most"),
    [
        (cutting_characters(1500), 490, 500),
        (cutting_words(300), 290, 300),
        (refusing_characters(1500, 400), 460, 500),
        (refusing_characters(1500, 413), 460, 500),
        (refusing_characters(1500, 500), 460, 500),
    ],
    ids=["cuts characters", "cuts words", "400", "413", "500"],
)
def test_the_window_of_a_server_is_measured(
    server: FakeEndpoint,
    embedder: HttpEmbedder,
    rule: Callable[[Call], Answer],
    least: int,
    most: int,
) -> None:
    """What a server does not read, or refuses, is outside its window."""
    server.rule = rule

    window = embedder.probe().window

    assert window is not None
    assert least <= window <= most


@settings(max_examples=150)
@given(
    st.lists(
        st.sampled_from(
            ["a", "it", "the", "sign", "\n", "    ", "rhythm", "Foo::bar()", "所有权"]
        )
        | st.text(max_size=6),
        min_size=1,
        max_size=60,
    ).map(" ".join)
)
def test_what_fits_the_window_is_read_by_servers_that_cut(text: str) -> None:
    """No text has more characters or words a unit than the filler of the probe."""
    units = estimate_tokens(text.strip())
    filler = nonsense_words(max(1, units))

    assert estimate_tokens(filler) == max(1, units)
    assert len(text.strip()) <= len(filler) + 1
    assert len(text.split()) <= len(filler.split())


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("", 0),
        ("a", 1),
        ("is it", 2),
        ("language", 4),
        ("xkcd", 4),
        ("2026", 4),
        ("a.b()", 5),
        ("a\nb", 3),
        ("a    b", 3),
        ("é", 1),
        ("锁", 2),
        ("\U0001f600", 3),
    ],
)
def test_the_unit_of_length_is_a_cautious_token(text: str, units: int) -> None:
    """Letters count by twos, consonant clusters by ones, wide characters more."""
    assert estimate_tokens(text) == units


def test_fillers_are_as_long_as_their_words_say() -> None:
    """The probe knows the length of a filler from the number of its words."""
    assert estimate_tokens(nonsense_words(500)) == 500
    assert estimate_tokens(rare_letters(100)) == 400
    assert len(set(nonsense_words(90).split())) > 40
