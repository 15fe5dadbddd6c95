# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about what NCCL is told: the syntax of its files, names, values, and settings that do not go together."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import actions, knowledge, nccl_settings
from ansible_collections.lockstep.gpu.plugins.plugin_utils.nccl_settings import Setting

from .context import Context, Hit, Row

# Remedies name what NCCL would take; the plan rewrites the one line.
_FAULTS = {
    "no_equals": "has no '=': NCCL passes it over",
    "export_prefix": "begins with a shell's word, which becomes part of the variable's name",
    "leading_blank": "begins with a blank, which becomes part of the variable's name",
    "blank_in_name": "has a blank before its '=', which becomes part of the variable's name",
    "inline_comment": "has a comment behind its value, which becomes part of the value",
    "quotes_kept": "has quotes around its value, which become part of the value",
    "carriage_return": "ends with a carriage return, which becomes part of the value before NCCL 2.30",
}


_READ = "; NCCL reads the number at its beginning all the same"


def _lines(ctx: Context) -> t.Iterator[t.Tuple[str, Row]]:
    """(path, line) of NCCL's configuration files."""
    for file in (ctx.state.get("nccl") or {}).get("conf") or []:
        for line in file["lines"]:
            yield file["path"], line


def grammar(ctx: Context, subject: str) -> str:
    """The source of what NCCL's code does."""
    return str(ctx.facts["nccl_variables"]["grammar"][subject]["source"])


def rewrite(path: t.Optional[str], name: str, value: t.Optional[str]) -> t.Tuple[Row, ...]:
    """The step that gives a variable another value in a file, or none at all; nothing for what is in no file."""
    if path is None:
        return ()
    if value is None or not nccl_settings.NAME.fullmatch(name):
        return (actions.step("rewrite_file", path, remove=[name]),)
    return (actions.step("rewrite_file", path, **{name: value}),)


def mended(ctx: Context, setting: Setting) -> bool:
    """Whether the rules for a file's syntax, or for values, already mend the line that a setting comes from."""
    faulty = any((path, line["name"], line["value"]) == (setting.file, setting.name, setting.value) and line["faults"] for path, line in _lines(ctx))
    row = nccl_settings.variable(ctx.facts, setting.name)
    return faulty or bool(row and nccl_settings.illegal(row, setting.value))


def _is_harmless(ctx: Context, line: Row) -> bool:
    """Whether NCCL gets what was meant: it reads a number, and passes over what stands behind it."""
    if not line["meant"] or not set(line["faults"]) <= {"inline_comment", "carriage_return"}:
        return False
    name, meant = line["meant"]
    row = nccl_settings.variable(ctx.facts, name)
    rest = line["value"].strip()[len(meant):]
    return bool(row and row["type"] in ("integer", "flag") and nccl_settings.number(meant) is not None
                and line["value"].strip().startswith(meant) and not rest[:1].isalnum())


def _fault(fault: str) -> t.Callable[[Context], t.Iterator[Hit]]:
    """The rule for one fault of a line."""
    def rule(ctx: Context) -> t.Iterator[Hit]:
        for path, line in _lines(ctx):
            if fault in line["faults"]:
                text = "%s=%s" % (line["name"], line["value"]) if line["name"] is not None else "without '='"
                meant = line["meant"]
                whole = meant if meant and meant[1] is not None else None
                advice = "; meant is %s=%s" % tuple(whole) if whole else ""
                do = rewrite(path, *whole) if whole else (actions.step("rewrite_file", path, remove=["line %d" % line["number"]]),)
                harmless = _is_harmless(ctx, line)
                yield Hit("%s line %d: %s" % (path, line["number"], meant[0] if meant else (line["name"] or "no setting").strip()),
                          "Line %d of %s (%s) %s%s%s." % (line["number"], path, text, _FAULTS[fault], advice, _READ if harmless else ""),
                          grammar(ctx, "file"), "harmless" if harmless else "default", () if harmless else do)
    rule.__name__ = "nccl_conf_" + fault
    rule.__doc__ = "No line of NCCL's files %s." % _FAULTS[fault]
    return rule


nccl_conf_no_equals = _fault("no_equals")
nccl_conf_export_prefix = _fault("export_prefix")
nccl_conf_leading_blank = _fault("leading_blank")
nccl_conf_blank_in_name = _fault("blank_in_name")
nccl_conf_inline_comment = _fault("inline_comment")
nccl_conf_quotes_kept = _fault("quotes_kept")
nccl_conf_carriage_return = _fault("carriage_return")


def nccl_conf_duplicate(ctx: Context) -> t.Iterator[Hit]:
    """A file names each variable once: the first line wins, the last one is what people look at."""
    first: t.Dict[t.Tuple[str, str], Row] = {}
    for path, line in _lines(ctx):
        if line["name"] is None:
            continue
        before = first.setdefault((path, line["name"]), line)
        if before is not line:
            equal = nccl_settings.same(before["value"], line["value"])
            yield Hit("%s in %s" % (line["name"], path), "%s names %s in line %d (%s) and in line %d (%s); NCCL takes the first." % (
                path, line["name"], before["number"], before["value"], line["number"], line["value"]), grammar(ctx, "file"),
                "equal" if equal else "default",
                () if equal else (actions.step("rewrite_file", path, remove=["line %d (%s)" % (line["number"], line["name"])]),))


def nccl_conf_overridden(ctx: Context) -> t.Iterator[Hit]:
    """What a file says is what NCCL gets: the environment and a user's own file come before /etc/nccl.conf."""
    settings = nccl_settings.given(ctx.state, {})
    winners = nccl_settings.effective(settings)
    logged = {row.name: row for row in settings if row.where == nccl_settings.LOG}
    for setting in settings:
        if not setting.file or not any(file["path"] == setting.where for file in (ctx.state.get("nccl") or {}).get("conf") or []):
            continue
        winner = winners[setting.name]
        if winner.where == setting.where:
            winner = logged.get(setting.name, setting)
        if winner.where != setting.where and not nccl_settings.same(winner.value, setting.value):
            yield Hit("%s in %s" % (setting.name, setting.where), "%s says %s=%s, but %s says %s, and that is what NCCL takes." % (
                setting.where, setting.name, setting.value, winner.where, winner.value), grammar(ctx, "file"))


def _judged(ctx: Context) -> t.List[Setting]:
    """Every setting of a name and a value once, with the place where it can be mended before the others."""
    seen: t.Dict[t.Tuple[str, str], Setting] = {}
    for setting in nccl_settings.given(ctx.state, ctx.stack):
        seen.setdefault((setting.name, setting.value), setting)
    return list(seen.values())


def _where(setting: Setting) -> str:
    return "requested" if setting.where == nccl_settings.STACK else "default"


def nccl_version(ctx: Context) -> t.Optional[str]:
    """The NCCL that reads the settings: the stack's, else the package's, else what a log says."""
    wanted = (ctx.stack.get("nccl") or {}).get("version")
    if wanted:
        return str(wanted)
    for name in ("libnccl2", "libnccl"):
        found = re.match(r"\d+(\.\d+)+", str((ctx.packages.get(name) or {}).get("version") or ""))
        if found:
            return found.group()
    return ((ctx.state.get("nccl") or {}).get("log") or {}).get("version")


def _unknown(ctx: Context, setting: Setting) -> t.Optional[t.Tuple[str, str, str]]:
    """(why, source, context) where a name is none that this NCCL reads."""
    row, version = nccl_settings.variable(ctx.facts, setting.name), nccl_version(ctx)
    if row:
        instead = "; %s replaced it" % row["instead"] if row.get("instead") else ""
        if row.get("gone") and not (version and knowledge.at_least(version, row["gone"]) is False):
            return "NCCL reads it no longer since %s%s" % (row["gone"], instead), row["source"], _where(setting)
        if row.get("since") and version and knowledge.at_least(version, row["since"]) is False:
            return "NCCL reads it from %s on, and here is %s" % (row["since"], version), row["source"], "newer"
        return None
    stranger = nccl_settings.stranger(ctx.facts, setting.name)
    if stranger:
        # PyTorch still listens to its old names, in a process's environment; NCCL's file is read too late for it.
        framework = stranger["owner"] == "PyTorch" and not (setting.file or setting.where == nccl_settings.STACK)
        return "it is no variable of NCCL's (%s); instead there is %s" % (
            "it belongs to " + stranger["owner"] if stranger["owner"] != "nobody" and ";" not in stranger["owner"] else stranger["owner"],
            stranger["instead"]), stranger["source"], "framework" if framework else _where(setting)
    if nccl_settings.foreign(ctx.facts, setting.name):
        return None
    source = str(ctx.facts["nccl_variables"]["grammar"]["file"]["source"])
    meant = nccl_settings.near(ctx.facts, setting.name)
    if meant:
        return "NCCL does not read it; did you mean %s?" % meant, source, _where(setting)
    if setting.name.startswith("NCCL_"):
        return "no NCCL up to %s reads it, unless a plugin does" % ctx.facts["nccl"]["releases"][-1]["version"], source, "nobody"
    return None


def nccl_variable_unknown(ctx: Context) -> t.Iterator[Hit]:
    """NCCL reads every variable that is set for it; it says nothing about those it does not know."""
    seen = set()
    faulty = {line["name"] for _path, line in _lines(ctx) if line["faults"]}
    for setting in _judged(ctx):
        # A name with a blank is judged by the rules for the file's syntax.
        if setting.name in seen or setting.name in faulty or not re.fullmatch(r"[A-Za-z0-9_-]+", setting.name):
            continue
        seen.add(setting.name)
        found = _unknown(ctx, setting)
        if found:
            why, source, context = found
            do = rewrite(setting.file, setting.name, None) if context == "default" else ()
            yield Hit(setting.name, "%s=%s in %s has no effect: %s." % (setting.name, setting.value, setting.where, why), source, context, do)


def nccl_value_reset(ctx: Context) -> t.Iterator[Hit]:
    """NCCL takes every value as it is written; what is not legal becomes something else, and nobody is told."""
    faulty = {(line["name"], line["value"]) for _path, line in _lines(ctx) if line["faults"]}
    for setting in _judged(ctx):
        row = nccl_settings.variable(ctx.facts, setting.name)
        problem = nccl_settings.illegal(row, setting.value) if row and (setting.name, setting.value) not in faulty else None
        if row and problem:
            source = grammar(ctx, "numbers") if setting.name == "NCCL_NTHREADS" else row["source"]
            plain = setting.value.strip()
            wanted = plain if plain and plain != setting.value and nccl_settings.illegal(row, plain) is None else None
            yield Hit("%s=%s" % (setting.name, setting.value), "%s=%s in %s is not taken as it stands: %s." % (
                setting.name, setting.value, setting.where, problem), source, _where(setting), rewrite(setting.file, setting.name, wanted))


def nccl_settings_contradict(ctx: Context) -> t.Iterator[Hit]:
    """The settings go together."""
    own = nccl_settings.effective(nccl_settings.given(ctx.state, {}))
    asked = nccl_settings.effective(nccl_settings.given({}, ctx.stack))
    for settings, context in ((own, "default"), (asked, "requested")):
        for row in ctx.facts["nccl_variables"]["contradictions"]:
            parts = [settings.get(name) for name in row["settings"]]
            if all(part and re.fullmatch(row["settings"][part.name], part.value) for part in parts):
                yield _contradiction(parts, row["says"], row["source"], "fails" if row.get("fails") and context == "default" else context)
        for row in ctx.facts["nccl_variables"]["bounds"]:
            says = _out_of_bounds(row, settings)
            if says:
                yield _contradiction([settings[row["lower"]], settings[row["upper"]]], says, row["source"], context)
    for setting in [*own.values(), *asked.values()]:
        if setting.name == "NCCL_CONF_FILE" and (setting.where == nccl_settings.STACK or setting.where.endswith("nccl.conf")):
            text = "NCCL_CONF_FILE=%s in %s comes too late: NCCL looks for it in the environment, before it reads any file." % (setting.value, setting.where)
            yield Hit("NCCL_CONF_FILE in %s" % setting.where, text, grammar(ctx, "file"), "late" if setting.file else "requested",
                      rewrite(setting.file, setting.name, None))


def _contradiction(parts: t.Sequence[t.Any], says: str, source: str, context: str) -> Hit:
    subject = ", ".join("%s=%s" % (part.name, part.value) for part in parts)
    places = ", ".join(sorted({part.where for part in parts}))
    return Hit(subject, "%s (%s): %s." % (subject, places, says), source, context)


def _out_of_bounds(row: Row, settings: t.Mapping[str, Setting]) -> t.Optional[str]:
    lower, upper = [nccl_settings.number(settings[row[key]].value) if row[key] in settings else None for key in ("lower", "upper")]
    if lower is None or upper is None:
        return None
    if row.get("product"):
        product = lower * upper
        return "their product is %d, and NCCL opens %d sockets at most" % (product, row["product"]) if product > row["product"] else None
    return "the minimum is above the maximum" if lower > upper else None


RULES = (nccl_conf_no_equals, nccl_conf_export_prefix, nccl_conf_leading_blank, nccl_conf_blank_in_name, nccl_conf_inline_comment,
         nccl_conf_quotes_kept, nccl_conf_carriage_return, nccl_conf_duplicate, nccl_conf_overridden, nccl_variable_unknown, nccl_value_reset,
         nccl_settings_contradict)
