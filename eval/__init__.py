"""Measuring retrieval on labelled questions. Not part of the installed package."""
