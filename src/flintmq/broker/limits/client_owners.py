"""Which account a client id belongs to, and how many ids one connection may register.

Replies, queue locks and questions to a client go by its id, and any peer may write any id into a
request.  So an id belongs to the account that registered it first, until the last connection under
it is gone.  Where access control is off there are no accounts, and all connections share all ids.

Invariant: all connections under one id belong to one account.
"""

from __future__ import annotations

from flintmq.broker.requests.peer import Peer
from flintmq.errors import Overloaded

CONNECTION_CLIENTS_MAX = 1_000
"""Client ids that one connection may register; a process has one."""


class ClientOwners:
    """The accounts of all registered client ids."""

    def __init__(self) -> None:
        self._accounts: dict[str, dict[Peer, str | None]] = {}
        self._client_ids: dict[Peer, set[str]] = {}

    def is_of_another(self, client_id: str, peer: Peer) -> bool:
        """Whether a client id belongs to another account than the one that is served."""
        accounts = self._accounts.get(client_id, {}).values()
        return any(account != peer.account for account in accounts)

    def require_room(self, client_id: str, peer: Peer) -> None:
        """Raise `Overloaded` when a connection has too many ids for one more."""
        known = self._client_ids.get(peer, set())
        if client_id not in known and len(known) >= CONNECTION_CLIENTS_MAX:
            raise Overloaded(
                "client ids of one connection", CONNECTION_CLIENTS_MAX, "CONNECTION_CLIENTS_MAX"
            )

    def register(self, client_id: str, peer: Peer) -> None:
        """A connection is registered under a client id."""
        self._client_ids.setdefault(peer, set()).add(client_id)
        self._accounts.setdefault(client_id, {})[peer] = peer.account

    def forget(self, peer: Peer) -> None:
        """A connection is in no group any more: its ids may become another account's."""
        for client_id in self._client_ids.pop(peer, ()):
            peers = self._accounts[client_id]
            del peers[peer]
            if not peers:
                del self._accounts[client_id]
