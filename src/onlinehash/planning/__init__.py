"""Capacity planning: how many machines a number of items needs."""
