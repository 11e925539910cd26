"""`python -m sharpdp`: the command line."""

import sys

from sharpdp.cli import main

if __name__ == "__main__":
    sys.exit(main())
