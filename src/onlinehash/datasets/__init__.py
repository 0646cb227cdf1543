"""Data sets: vectors, labels, queries and their neighbours from files of many formats.

Examples
--------
>>> from onlinehash import datasets
>>> "cifar-10" in datasets.KNOWN  # what `load` finds by name, and `survey` looks for
True
>>> datasets.KNOWN["mnist"].title
'MNIST: 70,000 handwritten digits of 28 x 28, as pixels'
"""

from onlinehash.datasets import gist
from onlinehash.datasets.catalogue import KNOWN
from onlinehash.datasets.dataset import Dataset
from onlinehash.datasets.inventory import Found, survey
from onlinehash.datasets.loader import digits, load
from onlinehash.datasets.tiny_images import TinyImages

__all__ = ["KNOWN", "Dataset", "Found", "TinyImages", "digits", "gist", "load", "survey"]
