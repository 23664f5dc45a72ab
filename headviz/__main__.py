"""`python -m headviz …`: see headviz/cli.py."""

import sys

from headviz import python_version

if __name__ == "__main__":
    if python_version.sentence():
        sys.exit(python_version.sentence())
    from headviz.cli import main

    sys.exit(main())
