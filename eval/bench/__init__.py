"""What docs-rag costs in time and space; ``python -m eval.bench`` measures it."""
