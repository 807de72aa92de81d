"""``python -m partwise``, and the command ``partwise``."""

import gc
import sys

from partwise.cli import main


def run() -> None:
    """Run the command line as a process of its own.

    Its modules are hundreds of thousands of objects that live to the end: the garbage collector need not go through
    them while they come in, nor when the process ends, which takes the better part of a tenth of a second.
    """
    gc.set_threshold(50_000, 20, 100)
    code = main()
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    run()
