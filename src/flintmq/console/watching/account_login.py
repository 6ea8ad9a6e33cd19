"""Signing in with an account of the brokers: what a person sees is what the account may read.

The brokers decide.  An account is accepted when a broker tells it how it is doing, and tells nobody
with the same name and a wrong secret: where brokers ask for no account, every secret would do.

Invariant: no secret is kept but in the `Admin` of its session.
"""

from __future__ import annotations

import secrets
from typing import Final

from flintmq.client.admin_aio import Admin
from flintmq.client.admin_methods import AdminSettings
from flintmq.console.watching.cluster_view import ClusterView
from flintmq.errors import BrokerRefused

REFUSED: Final = (
    "The brokers refuse this account: its secret is wrong, or it may not read how they are doing."
)
UNGUARDED: Final = (
    "The brokers serve this console without an account, so an account proves nothing here: "
    "start the console with a token."
)


class AccountLogin:
    """Opens the cluster for one account after the other."""

    def __init__(self, client: AdminSettings) -> None:
        self._client = client

    async def open(self, access_key: str, secret_key: str) -> ClusterView | str:
        """The cluster as this account sees it, or the sentence that says why not."""
        if not access_key or not secret_key:
            return REFUSED
        wrong = self._view(access_key, secrets.token_urlsafe())
        try:
            if await _is_served(wrong):
                return UNGUARDED
        finally:
            await wrong.close()
        view = self._view(access_key, secret_key)
        is_open = False
        try:
            is_open = await _is_served(view)
            return view if is_open else REFUSED
        finally:
            if not is_open:
                await view.close()

    def _view(self, access_key: str, secret_key: str) -> ClusterView:
        settings = self._client.copy()
        settings["access_key"], settings["secret_key"] = access_key, secret_key
        return ClusterView(Admin(**settings))


async def _is_served(view: ClusterView) -> bool:
    """Whether a broker answers; a cluster that is away is an error."""
    try:
        found = await view.status()
    except BrokerRefused:
        return False
    return any(each.figures is not None for each in found)
