"""The worker, with the kinds of the tests added: `python -m tests.job_worker`. TEST_CORES: cores that it takes to be there."""

import os
import sys

from headviz.jobs import threads
from headviz.jobs.worker import main
from tests.job_kinds import register

if __name__ == "__main__":
    register()
    if cores := os.environ.get("TEST_CORES"):
        threads.cores = lambda: int(cores)
    sys.exit(main())
