"""`ditseed explain`: what an error code or an exit status means."""

from __future__ import annotations

import difflib
import inspect
import re
from typing import Annotated

from loader import errors
from loader.cli.report import show_facts
from loader.declared import Argument, declare


@declare("explain")
def command(code: Annotated[str, Argument("CODE")]) -> None:
    """Explain an error: CODE is the word in brackets at the end of its message, or an exit status.

    Words in angle brackets stand for the facts of an actual error, such as a path.

    \b
    Examples:
      ditseed explain backup.log_incomplete
      ditseed explain 11
    """
    word = code.strip("[]")
    kinds = [kind for kind in errors.classes() if word in (kind.code, str(kind.exit_status))]
    show_facts(facts_of(kinds[0]) if kinds else _facts_of_status(word))


def facts_of(kind: type[errors.LoaderError]) -> dict[str, object]:
    """Returns the explanation of an error. `about`: the heading above its class in loader/errors.py."""
    before = inspect.getsource(errors).partition(f"class {kind.__name__}(")[0]
    about = re.findall("^# --- (.*) ---$", before, re.MULTILINE)[-1]
    message, hint = (re.sub(r"\{(\w+)\}", r"<\1>", text) for text in (kind.message, kind.general_hint()))
    return {"code": kind.code, "status": kind.exit_status, "message": message, "hint": hint, "about": about}


def _facts_of_status(word: str) -> dict[str, object]:
    """Returns the explanation of an exit status. Raises UsageProblem if `word` is not an exit status."""
    is_signal = word.isdecimal() and 128 < int(word) <= 192
    if word.isdecimal() and (meaning := errors.STATUSES.get("128 + n" if is_signal else word)):
        return {"status": word, "message": meaning, **({} if is_signal else {"note": errors.PLUGINS})}
    codes = [kind.code for kind in errors.classes()]
    near = [code for code in codes if word in code.split(".")] or difflib.get_close_matches(word, codes)
    advice = f"did you mean {', '.join(near)}?" if near else "docs/errors.md lists them all"
    raise errors.UsageProblem(reason=f"no error has the code or exit status {word} ({advice})")
