"""The live index: codes that follow a changing hash function, searchable at every moment, and kept safe on a disk."""
