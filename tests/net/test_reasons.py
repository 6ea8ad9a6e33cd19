"""What a socket or TLS reports becomes a sentence a person can act on."""

from __future__ import annotations

import socket
import ssl

import pytest

from flintmq.net.reasons import why, why_lost, why_no_handshake, why_not_admitted


def tls_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] something")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "x"), "refused: nothing listens there"),
        (ConnectionResetError(104, "x"), "the connection was reset by the peer"),
        (BrokenPipeError(32, "x"), "the connection was reset by the peer"),
        (socket.gaierror(-2, "x"), "the name is not known"),
        (TimeoutError(), "timed out"),
        (OSError(113, "No route to host"), "No route to host"),
        (OSError("several things"), "several things"),
        (RuntimeError("odd"), "RuntimeError: odd"),
        (ssl.SSLEOFError(8, "x"), "the peer closed the connection"),
        (tls_error("WRONG_VERSION_NUMBER"), "the peer does not speak TLS"),
        (
            tls_error("TLSV13_ALERT_CERTIFICATE_REQUIRED"),
            "TLS: a client certificate is required (certificate_file or --tls-cert sets one)",
        ),
        (
            tls_error("TLSV1_ALERT_UNKNOWN_CA"),
            (
                "TLS: the peer does not accept our certificate (TLSV1_ALERT_UNKNOWN_CA): it must "
                "be signed by the authority of the peer's --tls-client-ca, and be in date"
            ),
        ),
        (
            tls_error("TLSV1_ALERT_PROTOCOL_VERSION"),
            "TLS: the peer speaks no version of ours (TLS 1.2 is the oldest)",
        ),
        (tls_error("NO_SHARED_CIPHER"), "TLS: no shared cipher"),
    ],
)
def test_each_error_has_its_words(error: Exception, words: str) -> None:
    assert why(error) == words


@pytest.mark.parametrize(
    ("reason", "side"),
    [
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "the client shows no certificate (it needs"),
        ("TLSV1_ALERT_UNKNOWN_CA", "the client does not accept our certificate"),
        ("UNSUPPORTED_PROTOCOL", "the client speaks no version of ours"),
        ("NO_SHARED_CIPHER", "TLS: no shared cipher"),
    ],
)
def test_a_server_says_which_side_has_to_do_something(reason: str, side: str) -> None:
    assert side in why_not_admitted(tls_error(reason))


def test_a_refused_connection_is_not_taken_for_a_broken_handshake() -> None:
    assert why_no_handshake(ConnectionRefusedError()) == "refused: nothing listens there"
    assert "may not speak TLS" in why_no_handshake(ConnectionResetError())


@pytest.mark.parametrize(
    ("secure", "heard", "hinted"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_only_an_end_right_after_the_handshake_hints_at_a_certificate(
    secure: bool, heard: bool, hinted: bool
) -> None:
    words = why_lost(None, in_frame=False, secure=secure, heard=heard)

    assert ("certificate_file" in words) is hinted
