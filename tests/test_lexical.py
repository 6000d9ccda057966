"""Folding and cutting: what looks the same is found, whatever the script."""

import time
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import make_store
from hypothesis import example, given, settings
from hypothesis import strategies as st

from docs_rag.lexical import (
    LOOKED_UP_CHARS,
    fold,
    match_any,
    query_substrings,
    query_words,
    visible,
    words,
)
from docs_rag.store import Store
from docs_rag.substrings import by_substrings

ANY_TEXT = st.text(st.characters(codec=None), max_size=60)
MIB = 1_000_000


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory):
    """An index with one page, to run queries against."""
    index = make_store(tmp_path_factory.mktemp("lexical") / "index.sqlite")
    index.put("docs/page.md", "Turn the valve clockwise.")
    yield index.store
    index.store.close()


def paths_of(store: Store, found: list[tuple[int, float]]) -> list[str]:
    return [store.chunks([chunk_id])[chunk_id].path for chunk_id, _ in found]


# Spellings that a reader takes for the same word; each finds each.
SAME = [
    pytest.param("Brücke", "Bru\u0308cke", id="latin-nfc-nfd"),
    pytest.param("선착장", unicodedata.normalize("NFD", "선착장"), id="hangul-nfc-nfd"),
    pytest.param("が", "か\u3099", id="kana-nfc-nfd"),
    pytest.param("USB", "ＵＳＢ", id="full-width-letters"),
    pytest.param("5678", "５６７８", id="full-width-digits"),
    pytest.param("ガス", "ｶﾞｽ", id="half-width-kana"),
    pytest.param("file", "ﬁle", id="ligature"),
    pytest.param("gangspill", "gang\u00adspill", id="soft-hyphen"),
    pytest.param("deckhouse", "deck\u200bhouse", id="zero-width-space"),
    pytest.param("deckhouse", "deck\u2060house", id="word-joiner"),
    pytest.param("deckhouse", "\ufeffdeckhouse", id="byte-order-mark"),
    pytest.param("deckhouse", "deck\u200dhouse", id="zero-width-joiner"),
    pytest.param("deckhouse", "\u202adeckhouse\u202c", id="bidi-embedding"),
    pytest.param("deckhouse", "deck\ufe0fhouse", id="variation-selector"),
    pytest.param("葛城", "葛\U000e0100城", id="ideographic-variation"),
    pytest.param("deckhouse", "d\U000e0065eckhouse", id="tag-character"),
    pytest.param("bilge_pump_rate", r"bilge\_pump\_rate", id="markdown-escape"),
    pytest.param("don't", "don\u2019t", id="typographic-apostrophe"),
    pytest.param("don't", "don\u00b4t", id="acute-accent-as-apostrophe"),
    pytest.param("don't", "don`t", id="backtick-as-apostrophe"),
    pytest.param("Hawai'i", "Hawai\u02bbi", id="okina"),
    pytest.param("don't", "don\uff07t", id="full-width-apostrophe"),
    pytest.param("mizzen top", "mizzen\u00a0top", id="no-break-space"),
    pytest.param("straße", "STRASSE", id="sharp-s"),
    pytest.param("ΟΔΟΣ", "οδος", id="final-sigma"),
    pytest.param("محمد", "مُحَمَّد", id="arabic-vowel-points"),
    pytest.param("محمد", "محـمد", id="arabic-stretch"),
    pytest.param("שלום", "שָׁלוֹם", id="hebrew-points"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_looks_the_same_folds_together(one: str, other: str) -> None:
    """Two spellings of one word are one string to the trigram index."""
    assert fold(one) == fold(other)
    assert words(one) == words(other)


# What a page says, and every way to ask for it that has to find it.
PAGE_AND_QUERIES = [
    pytest.param(
        "Set flushBackoffMillis first.",
        [
            *("flushBackoffMillis", "flushbackoffmillis", "FLUSHBACKOFFMILLIS"),
            *("backoff millis", "BackoffMillis", "flush_backoff_millis"),
            "flush-backoff-millis",
        ],
        id="camel-case",
    ),
    pytest.param(
        "Set max_crate_weight first.",
        ["max_crate_weight", "crate_weight", "max crate weight", "MaxCrateWeight"],
        id="snake-case",
    ),
    pytest.param(
        "Pass --fail-on-drift to it.",
        ["--fail-on-drift", '"--fail-on-drift"', "failOnDrift", "fail on drift"],
        id="kebab-case",
    ),
    pytest.param(
        "Set server.http.port first.",
        ["server.http.port", "http.port", "serverHttpPort", "port"],
        id="dotted",
    ),
    pytest.param(
        "A `std::vector<T>` grows.",
        ["std::vector<T>", "std::vector", "vector", "stdvector", "std vector"],
        id="cpp-path",
    ),
    pytest.param("Error E0502 says so.", ["E0502", "e0502", "E0502:"], id="error-code"),
    pytest.param("Deploy to k8 there.", ["k8", "K8"], id="two-characters"),
    pytest.param("Written in R today.", ["R", "r"], id="one-letter"),
    pytest.param("An HTTPServer runs.", ["HTTPServer", "http server"], id="acronym"),
    pytest.param("Use C# there.", ["C#", "c#", "csharp", "C# code"], id="c-sharp"),
    pytest.param("Use C++17 there.", ["C++", "c++", "cplusplus"], id="c-plus-plus"),
    pytest.param("Edit src/main.rs now.", ["src/main.rs", "main.rs"], id="path"),
    pytest.param("The `#[derive]` line.", ["#[derive]", "derive"], id="attribute"),
    pytest.param("Don't flog it.", ["don’t", "dont", "don't"], id="apostrophe"),
    pytest.param("The skipper's key.", ["skipper's", "skipper"], id="genitive"),
    pytest.param("One BRÜCKE.", ["brücke", "brucke", "Bru\u0308cke"], id="diacritics"),
    pytest.param("x\u0302y is it.", ["x\u0302y"], id="uncomposed-mark"),
    pytest.param("港口的潮汐表。", ["潮汐", "潮汐表", "潮汐 OR 水门"], id="chinese"),
    pytest.param(
        "泊位费用按月结算。",
        ["请问我们的泊位费用是怎么结算的？", "泊位 architecture"],
        id="chinese-question",
    ),
    pytest.param("使用flushBackoff函数", ["flushBackoff", "函数"], id="mixed"),
    pytest.param("革紐を結ぶ。", ["革紐", "革紐の結び方"], id="japanese"),
    pytest.param("カタカナ語", ["カタカナ", "ｶﾀｶﾅ"], id="katakana"),
    pytest.param("수문은 아침에 연다.", ["수문", "수문을"], id="korean"),
    pytest.param("วิธีตั้งค่าเซิร์ฟเวอร์", ["ตั้งค่า", "เซิร์ฟเวอร์"], id="thai"),
    pytest.param("हिन्दी भाषा", ["हिन्दी", "भाषा"], id="devanagari"),
    pytest.param("Настройка сервера", ["сервера", "НАСТРОЙКА"], id="cyrillic"),
    pytest.param("Databases release.", ["database", "releases"], id="stemming"),
]


@pytest.mark.parametrize(("page", "queries"), PAGE_AND_QUERIES)
def test_a_page_is_found_by_every_spelling(
    page: str, queries: list[str], tmp_path: Path
) -> None:
    """The words of a query meet those of a page in a real index, and only there."""
    index = make_store(tmp_path / "index.sqlite")
    index.put("docs/other.md", "Nothing of the kind: 无关, 무관, หมา, कुछ.")
    index.put("docs/page.md", page)
    with index.store as store:
        for query in queries:
            found = store.search_words(match_any(query_words(query)), 9)
            assert paths_of(store, found) == ["docs/page.md"], query


@pytest.mark.parametrize(
    ("query", "tokens"),
    [
        ("潮汐", ["潮汐"]),
        ("潮", ["潮"]),
        ("水k潮汐", ["水", "k", "潮汐"]),
        ("ตั้", ["ตั้"]),
        ("tide Tide TIDE", ["tide"]),
        ("C C# C++", ["c", "csharp", "cplusplus"]),
        ("foo#bar issue#12", ["foo", "bar", "issue", "12"]),
        ("foo.bar++ libsomething#", ["foo", "bar", "foobar", "libsomething"]),
        ("a/" + "b" * 61, ["a", "b" * 61, "a" + "b" * 61]),
        ("a/" + "b" * 63, ["a", "b" * 63]),
        ("---", []),
        ("\u200b", []),
    ],
)
def test_a_query_asks_for_what_tells_pages_apart(query: str, tokens: list[str]) -> None:
    """Tokens are distinct, in order, and single characters only where all there is."""
    assert query_words(query) == tokens


@pytest.mark.parametrize(
    ("query", "substrings"),
    [
        ("--fail-on-drift", ["--fail-on-drift"]),
        ('"--fail-on-drift"', ["--fail-on-drift"]),
        ("#[derive(Debug)]", ["#[derive(debug)]"]),
        ("std::vector<T>", ["std::vector<t>"]),
        ("call foo_bar(x), then", ["call", "foo_bar(x)", "then"]),
        ("(like foo(bar))", ["like", "foo(bar)"]),
        ("foo()", ["foo"]),
        ("(see below).", ["see", "below"]),
        ("edit .gitignore:", ["edit", ".gitignore"]),
        ("[link](url)", ["link](url"]),
        ("don’t", ["don't"]),
        ("ab C# k8", []),
        ("C++", ["c++"]),
        ("flushBackoff是什么", ["flushbackoff", "是什么"]),
        ("潮汐", []),
        ("潮汐表格", ["潮汐表", "汐表格"]),
        ("tide tide", ["tide"]),
        ("🎉🎉🎉", ["🎉🎉🎉"]),
    ],
)
def test_substrings_keep_names_whole(query: str, substrings: list[str]) -> None:
    """The trigram index is asked for names with their punctuation, without stops."""
    assert query_substrings(query) == substrings


def test_names_are_found_with_their_punctuation(tmp_path: Path) -> None:
    """The trigram index tells ``--drift`` from ``drift``, and finds inside words."""
    index = make_store(tmp_path / "index.sqlite")
    index.put("docs/flag.md", "Pass --drift to it.")
    index.put("docs/word.md", "The drift of the current, and a spindrift.")
    with index.store as store:
        flags = by_substrings(store, query_substrings("--drift"), 2, 9).items()
        inside = by_substrings(store, query_substrings("indrif"), 2, 9).items()
        assert paths_of(store, flags) == ["docs/flag.md"]
        assert paths_of(store, inside) == ["docs/word.md"]


@given(ANY_TEXT)
def test_composition_never_matters(text: str) -> None:
    """Composed and decomposed forms of any text fold and cut alike."""
    composed = unicodedata.normalize("NFC", text)
    decomposed = unicodedata.normalize("NFD", text)

    assert fold(composed) == fold(decomposed)
    assert words(composed) == words(decomposed)


@given(ANY_TEXT)
def test_a_query_asks_only_for_what_a_page_yields(text: str) -> None:
    """A page that holds the query's very text holds each of its tokens."""
    assert set(query_words(text)) <= set(words(text))


@given(ANY_TEXT)
def test_folded_text_can_be_stored(text: str) -> None:
    """What comes out is UTF-8, whatever went in: no index takes surrogates."""
    assert fold(text).encode().decode() == fold(text)
    assert all(word == word.encode().decode() for word in words(text))


@example("\ud800")
@given(ANY_TEXT)
def test_surrogates_are_replaced_rather_than_dropped(text: str) -> None:
    """A text of nothing but broken characters is not taken for an empty one."""
    broken = any("\ud800" <= character <= "\udfff" for character in text)

    assert not broken or "\ufffd" in visible(text)


@settings(max_examples=300)
@example('"')
@example('""" OR NEAR(')
@example("\x00a")
@example("\ud800")
@example("a* ^b -c {d}: NOT")
@given(text=ANY_TEXT)
def test_any_text_is_a_legal_query(empty_store: Store, text: str) -> None:
    """No text makes FTS5 complain, cut to tokens or taken as it stands."""
    for terms in (query_words(text), query_substrings(text), text.split(" "), [text]):
        query = match_any(terms)
        if query:
            empty_store.search_words(query, 5)
            by_substrings(empty_store, terms, 1, 5)


def test_operators_are_words(tmp_path: Path) -> None:
    """AND, OR, NOT and NEAR in a query are looked up, not obeyed."""
    index = make_store(tmp_path / "index.sqlite")
    index.put("docs/ready.md", "READY OR NOT, here I come.")
    with index.store as store:
        for query in ("NOT READY", "READY OR NOT", "AND", "NEAR(here", "come OR"):
            terms = match_any(query_words(query))
            assert bool(store.search_words(terms, 5)) is (query != "AND"), query


def test_a_pasted_page_is_a_legal_query(empty_store: Store) -> None:
    """Thousands of terms are no syntax that is too deep."""
    query = match_any([*(f"word{i}" for i in range(5000)), "valve"])

    assert len(empty_store.search_words(query, 5)) == 1


def test_nothing_to_ask_is_no_query() -> None:
    """Without a term that shows there is no query at all."""
    assert match_any([]) == ""
    assert match_any(["", " ", "\x00", "\ud800"]) == ""
    assert match_any(["a", "", 'b"c']) == '"a" OR "b""c"'


LONG_QUERIES = {
    "words": " ".join(f"rope{n}" for n in range(3_000)),
    "ideographs": "".join(chr(0x4E00 + n) for n in range(20_000)),
    "thai": "".join(chr(0x0E01 + n * n % 46) for n in range(20_000)),
    "names": " ".join(f"std::rope{n}<T>" for n in range(1_500)),
}


@pytest.mark.parametrize("query", LONG_QUERIES.values(), ids=LONG_QUERIES)
def test_a_pasted_page_is_looked_up_by_its_ends(query: str) -> None:
    """However long a query, as much is looked up, from its beginning and its end."""
    twice = query + "\n" + query

    for cut in (query_words, query_substrings):
        tokens = cut(query)
        assert sum(map(len, tokens)) <= 4 * LOOKED_UP_CHARS
        assert set(tokens) & set(cut(query[:200]))
        assert set(tokens) & set(cut(query[-200:]))
        assert cut(twice) == tokens


@pytest.mark.parametrize("cut", [fold, words, query_words, query_substrings])
@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "a-",
        "aB",
        "a_",
        "(a",
        "(",
        "潮",
        "a潮",
        "ก",
        "\\*",
        "a\u0301",
        "::",
        "c++ ",
    ],
)
def test_time_is_linear(cut: Callable[[str], object], piece: str) -> None:
    """A megabyte of anything takes seconds at most, not hours."""
    text = piece * (MIB // 4 // len(piece))
    started = time.perf_counter()
    cut(text)

    assert time.perf_counter() - started < 20
