"""How many machines a number of items takes."""
