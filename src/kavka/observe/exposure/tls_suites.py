"""TLS suites: their numbers, their names, and what is weak about some of them.

Decides which suites a hello asks for. Must not know which of them a server has.

Source: IANA's registry of TLS cipher suites; RFC 9325 (recommendations), RFC 7465 (RC4), RFC 8996 (versions).
"""

from __future__ import annotations

from typing import Final

NEWEST: Final = {
    0x1301: "TLS_AES_128_GCM_SHA256",
    0x1302: "TLS_AES_256_GCM_SHA384",
    0x1303: "TLS_CHACHA20_POLY1305_SHA256",
    0x1304: "TLS_AES_128_CCM_SHA256",
    0x1305: "TLS_AES_128_CCM_8_SHA256",
}
"""TLS 1.3's."""
_EXCHANGES: Final = {
    "RSA": {
        0x0001: "NULL_MD5", 0x0002: "NULL_SHA", 0x003B: "NULL_SHA256", 0x0004: "RC4_128_MD5", 0x0005: "RC4_128_SHA",
        0x0009: "DES_CBC_SHA", 0x000A: "3DES_EDE_CBC_SHA", 0x002F: "AES_128_CBC_SHA", 0x0035: "AES_256_CBC_SHA",
        0x003C: "AES_128_CBC_SHA256", 0x003D: "AES_256_CBC_SHA256", 0x009C: "AES_128_GCM_SHA256",
        0x009D: "AES_256_GCM_SHA384", 0x0041: "CAMELLIA_128_CBC_SHA", 0x0084: "CAMELLIA_256_CBC_SHA",
        0xC09C: "AES_128_CCM", 0xC09D: "AES_256_CCM",
    },
    "RSA_EXPORT": {0x0003: "RC4_40_MD5", 0x0006: "RC2_CBC_40_MD5", 0x0008: "DES40_CBC_SHA"},
    "DHE_RSA": {
        0x0015: "DES_CBC_SHA", 0x0016: "3DES_EDE_CBC_SHA", 0x0033: "AES_128_CBC_SHA", 0x0039: "AES_256_CBC_SHA",
        0x0067: "AES_128_CBC_SHA256", 0x006B: "AES_256_CBC_SHA256", 0x009E: "AES_128_GCM_SHA256",
        0x009F: "AES_256_GCM_SHA384", 0xCCAA: "CHACHA20_POLY1305_SHA256", 0xC09E: "AES_128_CCM",
        0xC09F: "AES_256_CCM",
    },
    "ECDHE_RSA": {
        0xC010: "NULL_SHA", 0xC011: "RC4_128_SHA", 0xC012: "3DES_EDE_CBC_SHA", 0xC013: "AES_128_CBC_SHA",
        0xC014: "AES_256_CBC_SHA", 0xC027: "AES_128_CBC_SHA256", 0xC028: "AES_256_CBC_SHA384",
        0xC02F: "AES_128_GCM_SHA256", 0xC030: "AES_256_GCM_SHA384", 0xCCA8: "CHACHA20_POLY1305_SHA256",
    },
    "ECDHE_ECDSA": {
        0xC006: "NULL_SHA", 0xC007: "RC4_128_SHA", 0xC008: "3DES_EDE_CBC_SHA", 0xC009: "AES_128_CBC_SHA",
        0xC00A: "AES_256_CBC_SHA", 0xC023: "AES_128_CBC_SHA256", 0xC024: "AES_256_CBC_SHA384",
        0xC02B: "AES_128_GCM_SHA256", 0xC02C: "AES_256_GCM_SHA384", 0xCCA9: "CHACHA20_POLY1305_SHA256",
        0xC0AC: "AES_128_CCM", 0xC0AD: "AES_256_CCM",
    },
    "DH_anon": {
        0x0018: "RC4_128_MD5", 0x001B: "3DES_EDE_CBC_SHA", 0x0034: "AES_128_CBC_SHA", 0x003A: "AES_256_CBC_SHA",
        0x00A6: "AES_128_GCM_SHA256", 0x00A7: "AES_256_GCM_SHA384",
    },
    "ECDH_anon": {0xC015: "NULL_SHA", 0xC017: "3DES_EDE_CBC_SHA", 0xC018: "AES_128_CBC_SHA", 0xC019: "AES_256_CBC_SHA"},
}  # fmt: skip
OLDER: Final = {
    number: f"TLS_{exchange}_WITH_{rest}" for exchange, suites in _EXCHANGES.items() for number, rest in suites.items()
}
"""TLS 1.2's and those before."""
_BROKEN: Final = ("NULL", "RC4", "RC2", "DES", "EXPORT", "anon", "MD5")


def is_broken(suite: str) -> bool:
    """Whether who listens can read it, or somebody in between can change it, with today's means."""
    return any(word in suite for word in _BROKEN)


def keeps_no_secret(suite: str) -> bool:
    """Whether who records the traffic can read it later, once he has the server's key (no forward secrecy)."""
    return suite.startswith("TLS_RSA_WITH_")
