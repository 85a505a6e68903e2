"""RegistryRefusal: what a schema registry answers instead of a result, with Confluent's error codes.

Decides the code, the status and the sentence of each refusal. Must not know HTTP beyond the status.

Source: Confluent Schema Registry's API reference, "Errors".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kavka.errors import KavkaError

NOT_FOUND: Final = frozenset({40401, 40402, 40403})
"""Of a subject, a version, a schema."""


class RegistryRefusal(KavkaError):
    """An answer with a status of HTTP, a code of the registry's, and a sentence."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def subject_not_found(subject: str) -> RegistryRefusal:
    return RegistryRefusal(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryRefusal:
    return RegistryRefusal(404, 40402, f"Version {version} not found.")


def schema_not_found(number: object = None) -> RegistryRefusal:
    return RegistryRefusal(404, 40403, "Schema not found" if number is None else f"Schema {number} not found")


def subject_soft_deleted(subject: str) -> RegistryRefusal:
    return RegistryRefusal(
        404, 40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently"
    )


def subject_not_soft_deleted(subject: str) -> RegistryRefusal:
    return RegistryRefusal(404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> RegistryRefusal:
    return RegistryRefusal(
        404, 40406, f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryRefusal:
    return RegistryRefusal(
        404, 40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    )


def level_not_configured(subject: str) -> RegistryRefusal:
    return RegistryRefusal(404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def mode_not_configured(subject: str) -> RegistryRefusal:
    return RegistryRefusal(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, reasons: Sequence[str]) -> RegistryRefusal:
    details = ", ".join(reasons)
    return RegistryRefusal(
        409,
        409,
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: [{details}]',
    )


def invalid_schema(why: str) -> RegistryRefusal:
    return RegistryRefusal(422, 42201, f"Invalid schema: {why}")


def invalid_version(version: object) -> RegistryRefusal:
    return RegistryRefusal(
        422,
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] and the "
        'string "latest"',
    )


def invalid_level(level: object) -> RegistryRefusal:
    return RegistryRefusal(
        422,
        42203,
        f"Invalid compatibility level {level!r}. Valid values are NONE, BACKWARD, FORWARD, FULL, BACKWARD_TRANSITIVE, "
        "FORWARD_TRANSITIVE and FULL_TRANSITIVE",
    )


def invalid_mode(mode: object) -> RegistryRefusal:
    return RegistryRefusal(
        422, 42204, f"Invalid mode {mode!r}. Valid values are READWRITE, READONLY, READONLY_OVERRIDE and IMPORT"
    )


def not_permitted(why: str) -> RegistryRefusal:
    return RegistryRefusal(422, 42205, why)


def reference_exists(subject: str, version: int, by: str) -> RegistryRefusal:
    return RegistryRefusal(
        422, 42206, f"One or more references exist to the schema of subject '{subject}', version {version}: {by}"
    )


def id_does_not_match(number: int, why: str) -> RegistryRefusal:
    return RegistryRefusal(422, 42207, f"The schema has the id {number}: {why}")


def invalid_subject(subject: str) -> RegistryRefusal:
    return RegistryRefusal(422, 42208, f"The specified subject {subject!r} is not a valid subject.")


def schema_too_large(size_bytes: int, most_bytes: int) -> RegistryRefusal:
    return RegistryRefusal(422, 42209, f"Schema is too large: {size_bytes:,} bytes, expected at most {most_bytes:,}")


def unprocessable(why: str) -> RegistryRefusal:
    return RegistryRefusal(422, 422, why)


def store_failed(why: str) -> RegistryRefusal:
    return RegistryRefusal(500, 50001, f"Error in the backend data store: {why}")


def timed_out(why: str) -> RegistryRefusal:
    return RegistryRefusal(500, 50002, f"Operation timed out: {why}")
