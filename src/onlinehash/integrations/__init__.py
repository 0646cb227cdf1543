"""Vector stores of other frameworks over an index that learns: one module each, behind an extra of the same name."""
