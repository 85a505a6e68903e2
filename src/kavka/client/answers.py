"""Error codes in answers: their names, and the exception that stands for one."""

from __future__ import annotations

from kavka.errors import ErrorCode, RequestError


def error_of(code: int) -> ErrorCode:
    """The `ErrorCode`; a number that this version of kavka does not know counts as UNKNOWN_SERVER_ERROR."""
    return ErrorCode.answered(code)


def error_name(code: int) -> str:
    known = error_of(code)
    return known.name if known == code else f"error {code}"


def raise_for(code: int, what: str, message: str | None = None) -> None:
    """Raises `RequestError` for the error code of an answer about `what`, unless it is NONE."""
    if code != ErrorCode.NONE:
        raise RequestError(error_of(code), f"{what}: {message or error_name(code)}")
