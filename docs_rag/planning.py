"""
What an indexing run has to do, decided before it does anything.

Pure: the indexed files and the files on disk in, a plan out.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from docs_rag.errors import ShrinkError
from docs_rag.records import Document
from docs_rag.schema import IndexedFile

# How many paths an error or a report names before it only counts.
_NAMED_PATHS = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """
    The difference between the index and the disk, paths sorted.

    ``renamed`` pairs (old path, new path) of the same bytes; such paths are in
    neither ``added`` nor ``purged``. ``rebuilt`` are files of the same bytes whose
    chunks or vectors were made another way than today's; they count as unchanged.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...]
    purged: tuple[str, ...]
    rebuilt: tuple[str, ...]
    unchanged: tuple[str, ...]

    @property
    def written(self) -> tuple[str, ...]:
        """The paths whose rows are made anew, sorted."""
        renamed = (new for _, new in self.renamed)
        return tuple(sorted([*self.added, *self.changed, *renamed, *self.rebuilt]))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write and nothing to purge."""
        return not self.written and not self.purged


def plan(
    indexed: Mapping[str, IndexedFile],
    documents: Mapping[str, Document],
    recipe: str,
    space_id: int,
) -> Plan:
    """
    Compare the index with the disk.

    ``recipe`` and ``space_id`` are how files are cut and embedded today.
    """
    gone = {
        path: file.sha256 for path, file in indexed.items() if path not in documents
    }
    new = [path for path in documents if path not in indexed]
    renamed = _pair_renames(gone, {path: documents[path].sha256 for path in new})
    moved_from = {old for old, _ in renamed}
    moved_to = {to for _, to in renamed}
    kept = sorted(indexed.keys() & documents.keys())
    changed = [p for p in kept if indexed[p].sha256 != documents[p].sha256]
    same = [p for p in kept if indexed[p].sha256 == documents[p].sha256]
    current = (recipe, space_id)
    rebuilt = [p for p in same if (indexed[p].recipe, indexed[p].space_id) != current]
    return Plan(
        added=tuple(sorted(path for path in new if path not in moved_to)),
        changed=tuple(changed),
        renamed=tuple(renamed),
        purged=tuple(sorted(path for path in gone if path not in moved_from)),
        rebuilt=tuple(rebuilt),
        unchanged=tuple(same),
    )


def _pair_renames(
    gone: Mapping[str, str], new: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Pair each new path with a gone path of the same bytes, both in sorted order."""
    by_hash: dict[str, list[str]] = {}
    for path in sorted(gone, reverse=True):
        by_hash.setdefault(gone[path], []).append(path)
    pairs = []
    for path in sorted(new):
        candidates = by_hash.get(new[path])
        if candidates:
            pairs.append((candidates.pop(), path))
    return pairs


def refuse_shrink(corpus: str, plan: Plan, indexed_count: int) -> None:
    """Raise ``ShrinkError`` where more than half of the indexed files would go."""
    if 2 * len(plan.purged) <= indexed_count:
        return
    named = plan.purged[:_NAMED_PATHS]
    rest = len(plan.purged) - len(named)
    lines = [f"  - {path}" for path in named]
    if rest:
        lines.append(f"  … and {rest} more")
    raise ShrinkError(
        f"corpus {corpus!r}: this run would purge {len(plan.purged)} of "
        f"{indexed_count} indexed files, and nothing was changed. If the files are "
        "really gone, run again with --allow-shrink; if not, check the scope in "
        "corpora.json and that the corpus is mounted.\n" + "\n".join(lines)
    )
