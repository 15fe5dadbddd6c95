# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What GRUB does with its menu, for simulated machines: runs the script grub.cfg as far as Debian's needs it.

Independent of the collection's parsers on purpose: nodes boot what the script says, and not what the collection read in it.
https://www.gnu.org/software/grub/manual/grub/html_node/Shell_002dlike-scripting.html
"""

from __future__ import annotations

import os
import re

BLOCK = 1024    # bytes of the environment block; GRUB writes it in place
_END = object()


class GrubError(Exception):
    """GRUB would stop here and wait for somebody at the console."""


def read_env(path):
    """The variables of an environment block; none where there is no block."""
    try:
        with open(path, encoding="utf-8") as handle:
            lines = handle.read().split("\n")
    except OSError:
        return {}
    if lines[0] != "# GRUB Environment Block":
        return {}
    rows = [line.partition("=") for line in lines[1:] if "=" in line and not line.startswith("#")]
    return {name: re.sub(r"\\(.)", r"\1", value) for name, _equals, value in rows}


def write_env(path, values):
    """Write the block in place, as GRUB does, which needs it to be there already."""
    lines = ["%s=%s\n" % (name, re.sub(r"([\\\n])", r"\\\1", value)) for name, value in values.items()]
    text = "# GRUB Environment Block\n" + "".join(lines)
    if os.path.getsize(path) != BLOCK or len(text) > BLOCK:
        raise GrubError("environment block too small")
    with open(path, "r+", encoding="utf-8") as handle:
        handle.write(text.ljust(BLOCK, "#"))


def words_of(text):
    """The words of a script with their quotes, and _END after each command. Braces are words of their own."""
    found, word, quote, index = [], "", None, 0

    def close():
        nonlocal word
        if word:
            found.append(word)
        word = ""
    while index < len(text):
        char = text[index]
        if quote:
            word += char
            if char == "\\" and quote == '"':
                index += 1
                word += text[index]
            elif char == quote:
                quote = None
        elif char == "\\" and text[index + 1:index + 2] == "\n":
            index += 1
        elif char in "'\"":
            quote = char
            word += char
        elif char == "#" and not word:
            while index + 1 < len(text) and text[index + 1] != "\n":
                index += 1
        elif char in " \t\n;":
            close()
            if char in "\n;":
                found.append(_END)
        else:
            word += char
        index += 1
    if quote:
        raise GrubError("syntax error: a quote is not closed")
    close()
    found.append(_END)
    return found


class _Parser:
    """From words to a tree: ("command", words), ("if", [(condition, body)...]), ("function", name, body), ("menu", words, body)."""

    def __init__(self, words):
        self._words, self._at = words, 0

    def block(self, *ends):
        """(commands, the word that ended them) up to one of the words `ends`, or to the end of the file."""
        nodes = []
        while True:
            while self._at < len(self._words) and self._words[self._at] is _END:
                self._at += 1
            if self._at >= len(self._words):
                if ends:
                    raise GrubError("syntax error: %s is missing" % " or ".join(ends))
                return nodes, None
            word = self._take()
            if word in ends:
                return nodes, word
            nodes.append(self._node(word))

    def _take(self):
        self._at += 1
        return self._words[self._at - 1]

    def _node(self, word):
        if word == "if":
            return self._choice()
        words = [word]
        while self._words[self._at] is not _END:
            words.append(self._take())
            if words[-1] == "{" and word in ("function", "menuentry", "submenu"):
                body = self.block("}")[0]
                return ("function", words[1], body) if word == "function" else ("menu", words[:-1], body)
        return ("command", words)

    def _choice(self):
        arms = []
        while True:
            condition = self.block("then")[0]
            body, end = self.block("elif", "else", "fi")
            arms.append((condition, body))
            if end == "else":
                arms.append(([], self.block("fi")[0]))
                end = "fi"
            if end == "fi":
                return ("if", arms)


class Menu:
    """The menu of a machine. root: where its files are; directory: GRUB's folder in it."""

    def __init__(self, root="/", directory="/boot/grub"):
        self._root, self._directory = root, directory
        self._variables = {"prefix": directory, "config_directory": directory, "grub_platform": "pc", "grub_cpu": "i386",
                           "feature_menuentry_id": "y", "feature_default_font_path": "y", "feature_timeout_style": "y"}
        self._functions, self._entries, self._linux = {}, [], {}
        self._source(directory + "/grub.cfg")

    @property
    def env(self):
        """The path of the environment block."""
        return self._path(self._directory + "/grubenv")

    def boot(self):
        """Start what is to be started now: {entry: path of ids, kernel, options, initrd}. Raises GrubError."""
        wanted = self._variables.get("default") or "0"
        entries, names = self._entries, []
        while True:
            step, _arrow, wanted = wanted.partition(">")
            entry = _chosen(entries, step)
            names.append(entry["id"] or entry["title"])
            if not entry["submenu"]:
                break
            self._entries = []
            self._run(entry["body"])
            entries = self._entries
        self._variables["chosen"] = ">".join(names)
        self._run(entry["body"])
        if "kernel" not in self._linux:
            raise GrubError("you need to load the kernel first")
        return dict(self._linux, entry=">".join(names))

    def _path(self, path):
        return os.path.join(self._root, path.lstrip("/"))

    def _source(self, path):
        try:
            with open(self._path(path), encoding="utf-8") as handle:
                text = handle.read()
        except OSError:
            raise GrubError("file `%s' not found" % path)
        return self._run(_Parser(words_of(text)).block()[0])

    def _run(self, nodes):
        done = True
        for node in nodes:
            if node[0] == "command":
                done = self._command(self._expanded(node[1]))
            elif node[0] == "function":
                self._functions[node[1]] = node[2]
            elif node[0] == "menu":
                self._entries.append(self._entry(node[1], node[2]))
            else:
                done = self._run(next((body for condition, body in node[1] if self._run(condition)), []))
        return done

    def _entry(self, words, body):
        words = self._expanded(words)
        ident = words[words.index("--id") + 1] if "--id" in words else None
        return {"submenu": words[0] == "submenu", "title": words[1], "id": ident, "body": body}

    def _expanded(self, words):
        """Words without their quotes, variables replaced; one that is empty and was not quoted is gone."""
        found = []
        for word in words:
            parts = re.findall(r"'([^']*)'|\"((?:\\.|[^\"\\])*)\"|((?:\\.|[^'\"\\])+)", word, re.DOTALL)
            text = "".join(plain if plain else re.sub(r"\\([$\"\\])", r"\1", self._filled(double)) if double else re.sub(r"\\(.)", r"\1", self._filled(bare))
                           for plain, double, bare in parts)
            if text or "'" in word or '"' in word:
                found.append(text)
        return found

    def _filled(self, text):
        return re.sub(r"(?<!\\)\$(?:\{(\w+)\}|(\w+))", lambda name: self._variables.get(name.group(1) or name.group(2), ""), text)

    def _command(self, words):
        if not words:
            return True
        if re.match(r"\w+=", words[0]):
            return self._do_set(words)
        name, words = words[0], words[1:]
        if name in self._functions:
            return self._run(self._functions[name])
        method = getattr(self, "_do_" + {"[": "test", "configfile": "source"}.get(name, name), None)
        # insmod, search, terminal_output and the like change nothing here.
        return method(words) if method else name != "false"

    def _do_set(self, words):
        for word in words:
            name, _equals, value = word.partition("=")
            self._variables[name] = value
        return True

    def _do_unset(self, words):
        for word in words:
            self._variables.pop(word, None)
        return True

    def _do_load_env(self, _words):
        self._variables.update(read_env(self.env))
        return True

    def _do_save_env(self, words):
        values = read_env(self.env)
        for name in words:
            values[name] = self._variables.get(name, "")
        write_env(self.env, values)
        return True

    def _do_source(self, words):
        return self._source(words[0])

    def _do_test(self, words):
        words = words[:-1] if words[-1:] == ["]"] else words
        if "-o" in words:
            at = words.index("-o")
            return self._do_test(words[:at]) or self._do_test(words[at + 1:])
        if "-a" in words:
            at = words.index("-a")
            return self._do_test(words[:at]) and self._do_test(words[at + 1:])
        if words[:1] == ["!"]:
            return not self._do_test(words[1:])
        if len(words) == 3:
            return (words[0] == words[2]) == (words[1] in ("=", "==", "-eq"))
        if len(words) == 2:
            path = self._path(words[1])
            return {"-z": lambda: not words[1], "-n": lambda: bool(words[1]), "-f": lambda: os.path.isfile(path), "-d": lambda: os.path.isdir(path),
                    "-e": lambda: os.path.exists(path), "-s": lambda: os.path.isfile(path) and os.path.getsize(path) > 0}[words[0]]()
        return bool(words and words[0])

    def _do_linux(self, words):
        if not os.path.isfile(self._path(words[0])):
            raise GrubError("file `%s' not found" % words[0])
        self._linux = {"kernel": re.sub(r"^.*/vmlinu[xz]-", "", words[0]), "options": " ".join(["BOOT_IMAGE=" + words[0], *words[1:]]), "initrd": None}
        return True

    def _do_initrd(self, words):
        for path in words:
            if not os.path.isfile(self._path(path)):
                raise GrubError("file `%s' not found" % path)
        self._linux["initrd"] = words[-1]
        return True


def _chosen(entries, step):
    """The entry of a menu by its id, title or number; GRUB takes the first one for what it does not know."""
    for index, entry in enumerate(entries):
        if step in (entry["id"], entry["title"], str(index)):
            return entry
    if not entries:
        raise GrubError("the menu is empty")
    return entries[0]
