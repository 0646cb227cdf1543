"""The command line `onlinehash`. Loading it loads no arrays: a command brings what it needs when it runs."""

from onlinehash.cli.app import main, run

__all__ = ["main", "run"]
