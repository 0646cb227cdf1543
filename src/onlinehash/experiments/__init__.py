"""Experiments: every figure of the paper, and ours, each as a plan; raw results first, figures made from them."""

#: Where runs go, and where those that are kept with the project are.
RESULTS, KEPT = "experiments", "docs/results"
