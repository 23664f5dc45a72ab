"""`python -m headviz …`: see headviz/cli.py."""

import sys

from headviz.cli import main

if __name__ == "__main__":
    sys.exit(main())
