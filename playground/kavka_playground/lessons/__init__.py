"""Lessons: runs to learn from. Each says something, has a run beside it, and asks for something to be done.

What a lesson claims is shown by the trace of the reader's own run, or it is not shown: a goal is reached when its check
finds the events that prove it, and says which they are.

lesson      what lessons are made of, and how a trace is searched
in_sync     who is in sync, and what waits for whom
crashes     leaders and followers that die, one by one and together; unclean elections
controller  the controller, its watches, and a controller that has not heard that it is none
lag         why replica.lag.max.messages had to go: the same traffic under both policies
request     the way of a request, and what acks promise
"""

from __future__ import annotations

from typing import Final

from kavka_playground.lessons import controller, crashes, in_sync, lag, request
from kavka_playground.lessons.lesson import Board, Goal, Lesson, Part, Proof

LESSONS: Final = (in_sync.LESSON, crashes.LESSON, controller.LESSON, lag.LESSON, request.LESSON)

__all__ = ["LESSONS", "Board", "Goal", "Lesson", "Part", "Proof"]
