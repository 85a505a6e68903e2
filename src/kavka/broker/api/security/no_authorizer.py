"""What a broker without an authorizer says of access control lists, as Apache Kafka says it. Not an API."""

from typing import Final

NO_AUTHORIZER: Final = "No Authorizer is configured."
