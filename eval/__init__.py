"""Labelled questions, a fixture and a door to measure on them from a checkout."""
