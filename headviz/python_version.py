"""The oldest Python that headviz runs on. Nothing is imported but sys, so that an older one can read this and say so.

`make install` runs it as a script before anything is installed.
"""

import sys

OLDEST = (3, 11)


def sentence(version=tuple(sys.version_info[:3])):
    """Empty where `version` can run headviz, else a sentence that says what is wrong and what to do."""
    if tuple(version[:2]) >= OLDEST:
        return ""
    have, need = ".".join(map(str, version)), ".".join(map(str, OLDEST))
    return f"headviz needs Python {need} or newer, and this is Python {have}: run `make install PYTHON=python{need}`."


if __name__ == "__main__":
    sys.exit(sentence() or 0)
