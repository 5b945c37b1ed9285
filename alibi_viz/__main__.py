"""`python -m alibi_viz` is the command `alibi-viz`."""

import sys

from alibi_viz.cli import main

sys.exit(main())
