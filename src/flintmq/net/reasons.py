"""Why a connection failed, in plain words and with the setting that helps."""

from __future__ import annotations

import socket
import ssl

from flintmq.protocol.codes import RequestCode

CLOSED_BY_PEER = "the peer closed the connection"
RESET = "the connection was reset by the peer"

_OWN = "certificate_file or --tls-cert sets one"

_PURPOSES = {
    RequestCode.SEND_MESSAGE: "a send",
    RequestCode.SEND_MESSAGE_V2: "a send",
    RequestCode.SEND_BATCH_MESSAGE: "a send of a batch",
    RequestCode.SEND_REPLY_MESSAGE_V2: "a reply",
    RequestCode.PULL_MESSAGE: "a pull",
    RequestCode.LITE_PULL_MESSAGE: "a pull",
    RequestCode.CONSUMER_SEND_MSG_BACK: "a message that is sent back",
    RequestCode.HEART_BEAT: "a heartbeat",
    RequestCode.GET_ROUTEINFO_BY_TOPIC: "a question for a route",
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: "a question for the members of a group",
    RequestCode.QUERY_CONSUMER_OFFSET: "a question for a committed offset",
    RequestCode.UPDATE_CONSUMER_OFFSET: "a commit",
    RequestCode.LOCK_BATCH_MQ: "a lock of queues",
    RequestCode.GET_MAX_OFFSET: "a question for the end of a queue",
    RequestCode.GET_MIN_OFFSET: "a question for the start of a queue",
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: "a question for the offset of a time",
}
"""The requests that people meet in an error, in words."""

_OLDEST = "TLS 1.2 is the oldest"
_VERSIONS = {"UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "VERSION_TOO_LOW"}

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


def why_not_admitted(error: BaseException) -> str:
    """The reason for a server's log why a client did not get in, and what to do on which side."""
    match error:
        case ssl.SSLCertVerificationError():
            message = error.verify_message.rstrip(".")
            return (
                f"TLS: the certificate of the client is not trusted: {message} (it must be signed "
                "by the authority of --tls-client-ca, and be in date)"
            )
        case ssl.SSLError():
            return _not_admitted(error)
        case _:
            return why(error)


def _not_admitted(error: ssl.SSLError) -> str:
    reason = error.reason or ""
    if "PEER_DID_NOT_RETURN" in reason:
        return "TLS: the client shows no certificate (it needs certificate_file or --tls-cert)"
    if "ALERT" in reason and ("CERT" in reason or "UNKNOWN_CA" in reason):
        return (
            f"TLS: the client does not accept our certificate ({reason}): it needs our authority "
            "as ca_file or --tls-ca, and our certificate must name its host and be in date"
        )
    if reason in _VERSIONS:
        return f"TLS: the client speaks no version of ours ({_OLDEST})"
    return why(error)


def no_answer(code: int, timeout_ms: int) -> str:
    return f"timed out after {timeout_ms} ms waiting for an answer to {request_name(code)}"


def does_not_read(code: int, timeout_ms: int) -> str:
    return f"timed out after {timeout_ms} ms writing {request_name(code)}: the peer does not read"


def request_name(code: int) -> str:
    """What a request asks for, with the name and number it has in RocketMQ."""
    try:
        known = RequestCode(code)
    except ValueError:
        return f"request code {code}"
    return f"{_PURPOSES.get(known, 'a request')} ({known.name}, {code})"


def no_connection(timeout_ms: int) -> str:
    return f"timed out after {timeout_ms} ms connecting"


def _distrust(error: ssl.SSLCertVerificationError) -> str:
    message = error.verify_message.rstrip(".")
    if error.verify_code in _OTHER_HOST:
        return f"TLS certificate is for another host: {message} (server_name sets the expected one)"
    if error.verify_code in _OUT_OF_DATE:
        return f"TLS certificate not trusted: {message} (the peer needs a new one)"
    return (
        f"TLS certificate not trusted: {message} (ca_file or --tls-ca names the authority to trust)"
    )


def _tls(error: ssl.SSLError) -> str:
    reason = error.reason or str(error)
    if "CERTIFICATE_REQUIRED" in reason or "PEER_DID_NOT_RETURN" in reason:
        return f"TLS: a client certificate is required ({_OWN})"
    if "ALERT" in reason and ("CERT" in reason or "UNKNOWN_CA" in reason):
        return (
            f"TLS: the peer does not accept our certificate ({reason}): it must be signed by the "
            "authority of the peer's --tls-client-ca, and be in date"
        )
    if reason in _VERSIONS:
        return f"TLS: the peer speaks no version of ours ({_OLDEST})"
    if reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"}:
        return "the peer does not speak TLS"
    return f"TLS: {reason.lower().replace('_', ' ')}"
