"""Learners: one method, one file. `registry` lists them; `base` is what they share."""
