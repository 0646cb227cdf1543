"""Experiments: every figure of the paper, and ours, each as a plan; raw results first, figures made from them."""
