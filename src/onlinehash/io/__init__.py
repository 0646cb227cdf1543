"""Everything that is written to a disk.

container.py  named arrays in one file, with checksums; nothing in it can run
format.py     learners, encoders and codes in that container, and how earlier formats are read
files.py      `save` and `load`
atomic.py     a file appears whole or not at all
"""
