"""Several processes that learn, as far as that is sound."""
