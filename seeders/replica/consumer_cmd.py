"""The running replica on the command lines of `replica seed` and `replica verify`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import click

from loader.cli import access, options
from loader.cli.options import Function
from loader.server.options import Connection


def consumer_options(required: bool) -> Callable[[Function], Function]:
    """The running replica: where it is, and how to bind there."""
    return options.stack(
        click.option(
            "--consumer",
            "consumer_uri",
            metavar="URI",
            required=required,
            help="URI of the replica: ldap://, ldaps:// or ldapi://.",
        ),
        access.second_options("the replica"),
    )


def consumer_of(provider: Connection, given: dict[str, Any]) -> Connection | None:
    """Take the consumer's options out of a command's arguments."""
    uri, bound = given.pop("consumer_uri"), access.second_of(provider, given)
    return None if uri is None else dataclasses.replace(bound, uri=uri)
