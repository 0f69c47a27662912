from __future__ import annotations


class Refused(Exception):
    """The request is none that AWS would answer, or that this endpoint knows."""
