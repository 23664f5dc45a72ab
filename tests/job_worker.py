"""The worker, with the kinds of the tests added: `python -m tests.job_worker`."""

import sys

from headviz.jobs.worker import main
from tests.job_kinds import register

if __name__ == "__main__":
    register()
    sys.exit(main())
