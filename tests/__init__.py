"""The tests, one folder a room; `rules` knows which behaviour each of them shows."""
