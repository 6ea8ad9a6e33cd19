"""The methods of `Admin` for the API reference, which reads the code without running it.

    lag = Method(group_lag)      in `client.admin_methods`, becomes
    lag(group, …) -> GroupLag    with the docstring and the arguments of `group_lag`

mkdocs loads this as an extension of griffe; mkdocs.yml names it.  It refuses a method whose
conversation it cannot find: such a method would be missing from the reference.
"""

from __future__ import annotations

from typing import Any, Final

import griffe

TABLE: Final = "flintmq.client.admin_methods"
CONVERSATIONS: Final = ("PausingConversation", "Conversation")
"""Generic types whose argument is what the method returns."""


class AdminReference(griffe.Extension):
    """Replaces each entry of the table of admin methods by the function that it stands for."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        if pkg.name != "flintmq":
            return
        package, table = pkg, pkg.modules_collection[TABLE]
        for kind in table.classes.values():
            for name, member in list(kind.attributes.items()):
                value = member.value
                if isinstance(value, griffe.ExprCall) and str(value.function) == "Method":
                    kind.set_member(name, _function(package, name, value.arguments[0], table))


def _function(
    package: griffe.Module, name: str, target: Any, table: griffe.Module
) -> griffe.Function:
    path = table.resolve(str(target).split(".")[0]) + str(target)[len(str(target).split(".")[0]) :]
    found = package.modules_collection[path]
    talk = found.final_target if isinstance(found, griffe.Alias) else found
    if not isinstance(talk, griffe.Function):
        raise griffe.GriffeError(f"{TABLE}.{name}: {path} is no function")
    parameters = griffe.Parameters(*list(talk.parameters)[1:])  # the first is the name servers
    made = griffe.Function(name, parameters=parameters, returns=_result(talk.returns))
    made.docstring = talk.docstring
    return made


def _result(returns: Any) -> Any:
    """What a conversation ends with."""
    is_talk = isinstance(returns, griffe.ExprSubscript) and str(returns.left) in CONVERSATIONS
    return returns.slice if is_talk else returns
