"""The plan of a run: what was added, changed, renamed and purged, and no more."""

import dataclasses

import pytest
from helpers import RECIPE, make_document, make_indexed
from hypothesis import given
from hypothesis import strategies as st

from docs_rag.errors import EXIT_REFUSED, ShrinkError
from docs_rag.planning import Plan, plan, refuse_shrink
from docs_rag.records import Document
from docs_rag.schema import IndexedFile

SPACE = 1
TREES = st.dictionaries(
    st.sampled_from("abcdefg"), st.sampled_from(["one", "two", "three"]), max_size=7
)


def planned(
    old: dict[str, str], new: dict[str, str], recipe: str = RECIPE, space: int = SPACE
) -> Plan:
    indexed = {path: make_indexed(path, text) for path, text in old.items()}
    documents = {path: make_document(path, text) for path, text in new.items()}
    return plan(indexed, documents, recipe, space)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({}, {"b": "1", "a": "2"}, {"added": ("a", "b")}, id="first run"),
        pytest.param({"a": "1"}, {"a": "1"}, {"unchanged": ("a",)}, id="no change"),
        pytest.param({"a": "1"}, {"a": "2"}, {"changed": ("a",)}, id="edited"),
        pytest.param({"a": "1"}, {}, {"purged": ("a",)}, id="removed"),
        pytest.param({"a": "1"}, {"b": "1"}, {"renamed": (("a", "b"),)}, id="renamed"),
        pytest.param(
            {"config.md": "1"},
            {"Config.md": "1"},
            {"renamed": (("config.md", "Config.md"),)},
            id="renamed in case only",
        ),
        pytest.param(
            {"a": "1"},
            {"a": "1", "b": "1"},
            {"unchanged": ("a",), "added": ("b",)},
            id="copied",
        ),
        pytest.param(
            {"a": "1"},
            {"b": "2"},
            {"purged": ("a",), "added": ("b",)},
            id="renamed and edited",
        ),
        pytest.param(
            {"a": "1", "b": "1", "c": "1"},
            {"x": "1", "y": "1"},
            {"renamed": (("a", "x"), ("b", "y")), "purged": ("c",)},
            id="copies renamed, fewer than there were",
        ),
        pytest.param(
            {"a": "1"},
            {"x": "1", "y": "1"},
            {"renamed": (("a", "x"),), "added": ("y",)},
            id="renamed and copied",
        ),
        pytest.param(
            {"a": "1", "b": "2"},
            {"a": "2", "b": "1"},
            {"changed": ("a", "b")},
            id="swapped",
        ),
    ],
)
def test_differences(old, new, expected) -> None:
    """Each difference between index and disk is named once, paths sorted."""
    nothing = dict.fromkeys((f.name for f in dataclasses.fields(Plan)), ())

    assert planned(old, new) == Plan(**{**nothing, **expected})


@pytest.mark.parametrize(
    ("recipe", "space"), [("another", SPACE), (RECIPE, SPACE + 1), (RECIPE, -1)]
)
def test_files_made_another_way_are_made_anew(recipe: str, space: int) -> None:
    """Another recipe or space rebuilds the unchanged files, and only reports those."""
    steps = planned({"a": "1", "b": "1"}, {"a": "1", "b": "2"}, recipe, space)

    assert (steps.rebuilt, steps.unchanged, steps.changed) == (("a",), ("a",), ("b",))
    assert steps.written == ("a", "b")


@given(TREES, TREES)
def test_a_plan_accounts_for_every_path(old, new) -> None:
    """Every path of either side is in exactly one part, and applying it is enough."""
    steps = planned(old, new)
    sources, targets = {o for o, _ in steps.renamed}, {n for _, n in steps.renamed}
    kept = [*steps.changed, *steps.unchanged]

    assert sorted([*kept, *steps.purged, *sources]) == sorted(old)
    assert sorted([*kept, *steps.added, *targets]) == sorted(new)
    assert all(old[before] == new[after] for before, after in steps.renamed)
    # No path could still be explained as a rename.
    assert not {old[p] for p in steps.purged} & {new[p] for p in steps.added}

    applied = {p: text for p, text in old.items() if p not in {*steps.purged, *sources}}
    applied |= {path: new[path] for path in steps.written}
    assert applied == new


@given(TREES, TREES, st.randoms())
def test_a_plan_depends_on_no_order(old, new, random) -> None:
    """The same trees listed in another order make the same plan."""
    shuffled = list(new.items())
    random.shuffle(shuffled)
    reverse = dict(reversed(old.items()))

    assert planned(old, new) == planned(reverse, dict(shuffled))


@given(TREES)
def test_a_second_run_has_nothing_to_do(tree) -> None:
    """The plan of an index that matches the disk is empty."""
    assert planned(tree, tree).is_empty
    assert not tree or not planned({}, tree).is_empty
    assert not tree or not planned(tree, {}).is_empty


def test_sizes_and_times_are_no_change() -> None:
    """Only bytes count: a touched file is unchanged."""
    document: Document = make_document("a", "1")
    file: IndexedFile = dataclasses.replace(make_indexed("a", "1"), mtime_ns=999)

    assert plan({"a": file}, {"a": document}, RECIPE, SPACE).is_empty


@pytest.mark.parametrize(
    ("kept", "gone", "refused"),
    [(1, 1, False), (1, 2, True), (0, 1, True), (0, 0, False), (50, 51, True)],
)
def test_a_shrinking_corpus_is_refused(kept: int, gone: int, refused: bool) -> None:
    """Half of the files may go; one more stops the run and says what to do."""
    old = {f"docs/{i:03}.md": str(i) for i in range(kept + gone)}
    steps = planned(old, dict(list(old.items())[:kept]))
    if not refused:
        refuse_shrink("demo", steps, len(old))
        return
    with pytest.raises(ShrinkError) as caught:
        refuse_shrink("demo", steps, len(old))
    message = str(caught.value)

    assert caught.value.exit_code == EXIT_REFUSED
    assert f"purge {gone} of {kept + gone}" in message.splitlines()[0]
    assert "'demo'" in message and "--allow-shrink" in message
    assert f"docs/{kept:03}.md" in message
    # Bounded, and it says so.
    assert len(message.splitlines()) <= 22
    assert gone <= 20 or f"… and {gone - 20} more" in message


def test_renames_are_no_shrinking() -> None:
    """A tree that moved as a whole purges nothing."""
    old = {f"docs/{i}.md": str(i) for i in range(9)}
    steps = planned(old, {f"guide/{i}.md": str(i) for i in range(9)})

    refuse_shrink("demo", steps, len(old))
    assert (len(steps.renamed), steps.purged) == (9, ())
