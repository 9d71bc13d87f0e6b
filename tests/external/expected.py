"""Expected failures: a file of lines `PATTERN  reason`, each with a reason why it cannot pass.

A case that fails without such a line fails the run, and so does one that passes in spite of its
line: the file says what is so.
"""

import fnmatch
from pathlib import Path

import pytest


class Expected:
    """The expected failures of one suite."""

    def __init__(self, name):
        path = Path(__file__).parent / f"{name}.expected"
        self.lines = []
        for line in path.read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                pattern, reason = line.split(None, 1)
                self.lines.append((pattern, reason.strip()))

    def reason(self, case):
        """Why a case is expected to fail; None if it is not."""
        for pattern, reason in self.lines:
            if fnmatch.fnmatchcase(case, pattern):
                return reason
        return None

    def compare(self, case, passed, said):
        """Ends a test as it must end: `said` is what the case printed."""
        reason = self.reason(case)
        if reason is None:
            assert passed, said
        elif passed:
            pytest.fail(f"it passes, although it is expected not to: {reason}")
        else:
            pytest.xfail(reason)

    def unused(self, cases):
        """The patterns that none of these cases has."""
        patterns = [pattern for pattern, _ in self.lines]
        return [pattern for pattern in patterns if not fnmatch.filter(cases, pattern)]
