"""Bodies of requests: what they may hold (`shapes`), and how bytes of several formats become that (`reading`)."""
