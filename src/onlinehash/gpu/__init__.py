"""Codes on a CUDA card: kernels, their twins in NumPy, and the exact search over what the card holds.

Nothing here imports CuPy before a card is asked for; `card.load_cupy` says in one sentence what is missing.
"""
