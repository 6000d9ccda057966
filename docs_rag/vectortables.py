"""
The vectors of an index: spaces, the vectors in them, and the windows they stand for.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from docs_rag.database import Database
from docs_rag.records import Capacity, ModelIdentity
from docs_rag.schema import HEADING, Space


class VectorTables(Database):
    """The vectors' part of a store."""

    def space(self, fingerprint: str) -> Space | None:
        """Return the vector space of that fingerprint, if this index has it."""
        rows = self.rows(
            "SELECT id, fingerprint, backend, model, dimension, window FROM spaces "
            "WHERE fingerprint = ?",
            fingerprint,
        )
        if not rows:
            return None
        space_id, _, backend, model, dimension, window = rows[0]
        capacity = Capacity(dimension, window)
        return Space(space_id, fingerprint, backend, model, capacity)

    def add_space(self, identity: ModelIdentity, capacity: Capacity) -> Space:
        """Open a vector space for a model that this index has not seen."""
        space_id = self.value(
            "INSERT INTO spaces(fingerprint, backend, model, dimension, window) "
            "VALUES(?,?,?,?,?) RETURNING id",
            *(identity.fingerprint, identity.backend, identity.model),
            *(capacity.dimension, capacity.window),
        )
        return Space(
            space_id, identity.fingerprint, identity.backend, identity.model, capacity
        )

    def remove_other_spaces(self, space_id: int) -> None:
        """Drop every vector space but one, with its vectors."""
        self.rows("DELETE FROM spaces WHERE id <> ?", space_id)

    def add_vectors(self, space_id: int, vectors: Mapping[bytes, bytes]) -> None:
        """Keep vectors (little-endian float32) under the SHA-256 of their texts."""
        self.run_many(
            "INSERT OR IGNORE INTO vectors(space_id, spare, text_sha256, vector) "
            "VALUES(?, 1, ?, ?)",
            [(space_id, digest, vector) for digest, vector in vectors.items()],
        )

    def vector_ids(self, space_id: int, digests: Iterable[bytes]) -> dict[bytes, int]:
        """Return the ids of those texts that have a vector in this space."""
        found = {}
        for digest in digests:
            vector_id = self.value(
                "SELECT id FROM vectors WHERE space_id = ? AND text_sha256 = ?",
                *(space_id, digest),
            )
            if vector_id is not None:
                found[digest] = int(vector_id)
        return found

    def drop_spare_vectors(self, space_id: int, keep: int) -> None:
        """Drop the oldest vectors that no chunk uses, but for ``keep`` of them."""
        self.rows(
            "DELETE FROM vectors WHERE id IN (SELECT id FROM vectors "
            "WHERE space_id = ? AND spare = 1 ORDER BY id DESC LIMIT -1 OFFSET ?)",
            *(space_id, keep),
        )

    def vector_ids_by_use(self, space_id: int, *, spare: bool) -> list[int]:
        """Return the ids of the vectors that chunks use, or use no more, ascending."""
        rows = self.rows(
            "SELECT id FROM vectors WHERE space_id = ? AND spare = ? ORDER BY id",
            *(space_id, spare),
        )
        return [row[0] for row in rows]

    def live_vector_count(self, space_id: int, after: int = 0) -> int:
        """Return how many vectors with ids above ``after`` chunks use."""
        return int(
            self.value(
                "SELECT count(*) FROM vectors WHERE space_id = ? AND spare = 0 "
                "AND id > ?",
                *(space_id, after),
            )
        )

    def live_vectors(
        self, space_id: int, after: int, count: int
    ) -> list[tuple[int, bytes]]:
        """Return (id, vector) of the next vectors in use with ids above ``after``."""
        return self.rows(
            "SELECT id, vector FROM vectors WHERE space_id = ? AND spare = 0 "
            "AND id > ? ORDER BY id LIMIT ?",
            *(space_id, after, count),
        )

    def live_vectors_among(
        self, space_id: int, ids: Sequence[int]
    ) -> list[tuple[int, bytes]]:
        """Return (id, vector) of those vectors with these ids that are in use."""
        return self.rows(
            "SELECT id, vector FROM vectors WHERE id IN "
            "(SELECT value FROM json_each(?)) AND space_id = ? AND spare = 0 "
            "ORDER BY id",
            *(json.dumps(list(ids)), space_id),
        )

    def vectors(self, ids: Sequence[int]) -> list[bytes]:
        """Return the vectors with these ascending ids, in that order."""
        rows = self.rows(
            "SELECT vector FROM vectors WHERE id IN (SELECT value FROM json_each(?)) "
            "ORDER BY id",
            json.dumps(list(ids)),
        )
        return [row[0] for row in rows]

    def nearest(
        self, space_id: int, vector: bytes, count: int
    ) -> list[tuple[int, float]]:
        """Return (vector id, cosine) of the nearest live vectors, by sqlite-vec."""
        rows = self.rows(
            "SELECT id, vec_distance_cosine(vector, ?) AS distance FROM vectors "
            "WHERE space_id = ? AND spare = 0 ORDER BY distance, id LIMIT ?",
            *(vector, space_id, count),
        )
        return [(row[0], 1.0 - row[1]) for row in rows]

    def chunks_of_vectors(self, vector_ids: Sequence[int]) -> dict[int, list[int]]:
        """Return, for each vector, the ids of the chunks it stands for."""
        rows = self.rows(
            "SELECT vector_id, chunk_id FROM windows WHERE vector_id IN "
            "(SELECT value FROM json_each(?)) ORDER BY vector_id, chunk_id",
            json.dumps(list(vector_ids)),
        )
        found: dict[int, list[int]] = {}
        for vector_id, chunk_id in rows:
            found.setdefault(vector_id, []).append(chunk_id)
        return found

    def vectors_of_chunks(self, ids: Sequence[int]) -> list[tuple[int, bool, int]]:
        """Return (chunk id, is its heading's, vector id) of all vectors of chunks."""
        rows = self.rows(
            "SELECT chunk_id, ordinal, vector_id FROM windows WHERE chunk_id IN "
            "(SELECT value FROM json_each(?)) ORDER BY chunk_id, ordinal",
            json.dumps(list(ids)),
        )
        return [(row[0], row[1] == HEADING, row[2]) for row in rows]

    def heading_vector_ids(self) -> set[int]:
        """Return the ids of the vectors that stand for headings."""
        rows = self.rows(
            "SELECT DISTINCT vector_id FROM windows WHERE ordinal = ?", HEADING
        )
        return {row[0] for row in rows}

    def text_in_vectors(self, space_id: int) -> tuple[int, int]:
        """
        Return the characters of text inside a vector of the space, and of all.

        (1, 1) where every file is: then nothing needs to be counted.
        """
        if not self.value("SELECT 1 FROM files WHERE space_id <> ? LIMIT 1", space_id):
            return 1, 1
        row = self.rows(
            "SELECT coalesce(sum(length(body)) FILTER (WHERE EXISTS (SELECT 1 FROM "
            "windows w JOIN vectors v ON v.id = w.vector_id WHERE w.chunk_id = c.id "
            f"AND w.ordinal > {HEADING} AND v.space_id = ?)), 0), "
            "coalesce(sum(length(body)), 0) FROM chunks c",
            space_id,
        )[0]
        return int(row[0]), int(row[1])
