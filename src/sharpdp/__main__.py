"""`python -m sharpdp`: the command line."""

import sys

from sharpdp.cli import main

sys.exit(main())
