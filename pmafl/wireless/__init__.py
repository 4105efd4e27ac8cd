"""The wireless cell: where devices stand, what their channels are, and what time and energy a round costs."""

from pmafl.wireless import channels

__all__ = ["channels"]
