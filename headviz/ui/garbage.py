"""What was imported is not looked through for garbage again and again.

Streamlit calls `gc.collect(2)` after every run of a script, also of a fragment that looks every 0.3 s. That walks over all objects
of the process, nearly all of them of modules, with every thread waiting, also the one that sends what was drawn.
"""

from __future__ import annotations

import gc
import sys

_modules = 0


def spare_modules() -> None:
    """Take what there is now out of what the collector looks through, where modules were imported since the last time.

    Objects are freed as ever when nothing refers to them; only a cycle that becomes garbage later stays, and this
    happens a few times in a process.
    """
    global _modules
    if len(sys.modules) > _modules:
        gc.collect()
        gc.freeze()
        _modules = len(sys.modules)
