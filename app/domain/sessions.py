"""Sessions: conversations across runs, one run at a time."""

from enum import StrEnum


class OnConflict(StrEnum):
    """What a run does that is started while another one of its session is open."""

    QUEUE = "queue"  # waits for its turn
    REJECT = "reject"  # is refused with 409
    CANCEL_PREVIOUS = "cancel_previous"  # ends those before it
