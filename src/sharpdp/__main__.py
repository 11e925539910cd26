"""`sharpdp` and `python -m sharpdp`: the command line, which Ctrl-C ends quietly also while it starts."""

import sys


def run() -> int:
    """The exit code of the command line that this process was given."""
    try:
        from sharpdp.cli import main

        return main()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("sharpdp: stopped.\n")
        return 130  # as shells have it


if __name__ == "__main__":
    sys.exit(run())
