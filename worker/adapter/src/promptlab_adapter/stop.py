"""The two ways in which a search ends early.

Both derive from BaseException on purpose: the optimizers catch Exception around every
step and then return as if they had finished.
"""

from __future__ import annotations


class JobAbort(BaseException):
    """The search ends here; what was found so far still counts. reason: cancelled or budget."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class JobError(BaseException):
    """The job failed. code is one of the parent's failure codes; message holds no text of the job."""

    def __init__(self, code: str, message: str, *, retryable: bool) -> None:
        super().__init__(code)
        self.code = code
        self.message = message
        self.retryable = retryable
