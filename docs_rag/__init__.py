"""
docs-rag: retrieval over the current documentation of a repository, for coding agents.

Reading order: errors, records, chunking, ranking, netguard, tracing, config, corpus,
embedding, store, vectors, indexer, retrieval, serve, cli. Each imports only from
those in front of it.
"""

__version__ = "0.1.0"
