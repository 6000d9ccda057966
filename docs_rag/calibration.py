"""
How similar this corpus looks to questions that have nothing to do with it.

A cosine means nothing by itself: what is high for one model and corpus is noise for
another. So each index carries the noise level of its own, measured when it is built.
"""

import numpy as np

from docs_rag.records import Embedder, Purpose
from docs_rag.schema import Space
from docs_rag.store import Store
from docs_rag.vectors import from_bytes
from docs_rag.verdict import Background

# Everyday questions from many fields, so that no technical corpus answers more than
# a few of them; the median and the quartiles below do not feel those few.
UNRELATED_QUESTIONS = (
    "How long should I boil an egg so that the yolk stays soft?",
    "Which trees lose their leaves first in autumn?",
    "What did sailors eat on long voyages in the eighteenth century?",
    "Can I plant tomatoes next to potatoes?",
    "Who painted the ceiling of the chapel?",
    "How do I get a red wine stain out of a carpet?",
    "What is the offside rule in football?",
    "When should a newborn be vaccinated against measles?",
    "How high is the tallest mountain in South America?",
    "What are the symptoms of an iron deficiency?",
    "How do bees find their way back to the hive?",
    "What should I wear to a summer wedding?",
    "How many strings does a cello have?",
    "Is it cheaper to rent or to buy a flat?",
    "Why is the sky red at sunset?",
    "How do I sharpen a kitchen knife on a stone?",
    "Which king lost his head in the revolution?",
    "What is the capital of Mongolia?",
    "How do I teach my dog to sit?",
    "How much sleep does a teenager need?",
    "What does a notary charge for a will?",
    "How are pearls formed in an oyster?",
    "Which muscles does swimming train?",
    "How long does a passport take to be renewed?",
    "What is the difference between jam and marmalade?",
    "Why do cats purr?",
    "Who wrote the first detective novel?",
    "How do I change a bicycle tyre?",
    "What causes the tides?",
    "How is parmesan cheese aged?",
)

_BATCH = 4096


def measure_background(store: Store, space: Space, embedder: Embedder) -> Background:
    """
    Return the distribution of the best cosine that unrelated questions reach.

    Centre: median. Spread: interquartile range / 1.349, which is the standard
    deviation where the distribution is normal.
    """
    ids = store.live_vector_ids(space.id)
    if not ids:
        return Background(mean=0.0, deviation=1.0)
    questions = embedder.embed(UNRELATED_QUESTIONS, Purpose.QUERY).vectors
    best = np.full(len(questions), -1.0, dtype=np.float32)
    for start in range(0, len(ids), _BATCH):
        blobs = store.vectors(ids[start : start + _BATCH])
        matrix = from_bytes(b"".join(blobs), space.capacity.dimension)
        best = np.maximum(best, (matrix @ questions.T).max(axis=0))
    low, middle, high = np.percentile(best, [25, 50, 75])
    return Background(
        mean=float(middle), deviation=max(float(high - low) / 1.349, 0.01)
    )
