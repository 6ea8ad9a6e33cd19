"""Why a connection failed, in plain words and with the setting that helps."""

from __future__ import annotations

import socket
import ssl

CLOSED_BY_PEER = "the peer closed the connection"
RESET = "the connection was reset by the peer"

_OWN = "certificate_file sets one"

_OTHER_HOST = {62, 64}  # OpenSSL: the name, or the IP address, does not match
_OUT_OF_DATE = {9, 10}  # OpenSSL: not yet valid, expired


def why(error: BaseException) -> str:
    """The reason for `Unreachable`, and for a server's log."""
    match error:
        case ssl.SSLCertVerificationError():
            return _distrust(error)
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError():
            return CLOSED_BY_PEER
        case ssl.SSLError():
            return _tls(error)
        case socket.gaierror():
            return "the name is not known"
        case ConnectionRefusedError():
            return "refused: nothing listens there"
        case ConnectionError():
            return RESET
        case TimeoutError():
            return "timed out"
        case OSError():
            return error.strerror or str(error)
        case _:
            return f"{type(error).__name__}: {error}"


def why_lost(error: BaseException | None, *, in_frame: bool, secure: bool, heard: bool) -> str:
    """The reason for a connection that stood; None is an orderly end of the peer's."""
    reason = why(error) if error else CLOSED_BY_PEER
    if in_frame:
        return f"{reason} in the middle of a frame"
    if secure and not heard and reason in {RESET, CLOSED_BY_PEER}:
        return f"{reason} right after the TLS handshake: it may want a client certificate ({_OWN})"
    return reason


def why_no_handshake(error: BaseException) -> str:
    """The reason for a connection that ended before TLS stood."""
    broken_off = ConnectionError | ssl.SSLEOFError | ssl.SSLZeroReturnError
    if isinstance(error, broken_off) and not isinstance(error, ConnectionRefusedError):
        return "the peer broke off the TLS handshake: it may not speak TLS"
    return why(error)


def no_answer(code: int, timeout_ms: int) -> str:
    return f"timed out after {timeout_ms} ms waiting for an answer to code {code}"


def does_not_read(code: int, timeout_ms: int) -> str:
    return f"timed out after {timeout_ms} ms sending code {code}: the peer does not read"


def no_connection(timeout_ms: int) -> str:
    return f"timed out after {timeout_ms} ms connecting"


def _distrust(error: ssl.SSLCertVerificationError) -> str:
    message = error.verify_message.rstrip(".")
    if error.verify_code in _OTHER_HOST:
        return f"TLS certificate is for another host: {message} (server_name sets the expected one)"
    if error.verify_code in _OUT_OF_DATE:
        return f"TLS certificate not trusted: {message} (the peer needs a new one)"
    return f"TLS certificate not trusted: {message} (ca_file names the authority to trust)"


def _tls(error: ssl.SSLError) -> str:
    reason = error.reason or str(error)
    if "CERTIFICATE_REQUIRED" in reason or "PEER_DID_NOT_RETURN" in reason:
        return f"TLS: a client certificate is required ({_OWN})"
    if "ALERT" in reason and ("CERT" in reason or "UNKNOWN_CA" in reason):
        return f"TLS: the peer does not accept our certificate ({reason})"
    if reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"}:
        return "the peer does not speak TLS"
    return f"TLS: {reason.lower().replace('_', ' ')}"
