"""Whether a value with a type says what `show --json` has of it as a text.

A typed value is: None, a bool, an int, a float, a str, ("address", int), ("bytes", bytes), a list, a dict. The texts of values are those of several
languages. What they have in common is the order of their numbers, strings and names, which is compared."""

import math, re

TOKEN = re.compile(
    r'b?"(?:[^"\\]|\\.)*"'
    r"|'(?:[^'\\]|\\.)+'"
    r"|<[^<>]*>|\(\)"
    r"|0x[0-9a-f]+"
    r"|[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?)(?!\w|\.\d)"
    r"|[-+]?nan(?:\(0x[0-9a-f]+\))?|[-+]?inf|NaN"
    r"|(?:::|[^\s{}\[\](),=:;\"'<])+",
    re.IGNORECASE,
)

ESCAPES = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11, "e": 27, "0": 0}


def unescaped(quoted):
    """The bytes of a string as C, C++ or Rust writes it."""
    text, out, at = quoted[quoted.index('"') + 1 : -1], bytearray(), 0
    while at < len(text):
        if text[at] != "\\":
            out += text[at].encode()
            at += 1
            continue
        octal = re.match(r"[0-7]{3}", text[at + 1 :])
        hexadecimal = re.match(r"x([0-9a-fA-F]{2})", text[at + 1 :])
        unicode = re.match(r"u\{([0-9a-fA-F]+)\}", text[at + 1 :])
        if octal:
            out.append(int(octal[0], 8) & 255)
            at += 4
        elif hexadecimal:
            out.append(int(hexadecimal[1], 16))
            at += 4
        elif text[at + 1] == "'":
            out += b"'"
            at += 2
        elif unicode:
            out += chr(int(unicode[1], 16)).encode()
            at += 1 + len(unicode[0])
        else:
            out += bytes([ESCAPES[text[at + 1]]]) if text[at + 1] in ESCAPES else text[at + 1].encode()
            at += 2
    return bytes(out)


def leaves(value):
    """The parts of a value that have no parts, in order."""
    if isinstance(value, dict) and value.get("variant") in value:
        # One of several: which one, and what it has.
        yield value["variant"]
        if value[value["variant"]] not in (None, "null"):
            yield from leaves(value[value["variant"]])
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def number(token):
    try:
        return int(token, 16) if token.lower().startswith("0x") else int(token)
    except ValueError:
        pass
    try:
        return float(re.sub(r"\(.*", "", token))
    except ValueError:
        return None


def is_same(leaf, token):
    if leaf is None:
        return token.startswith("<") or token in ("None", "nullopt", "0x0", "nil", "null", "NULL") or "null" in token
    if isinstance(leaf, bool):
        return token == str(leaf).lower()
    if isinstance(leaf, tuple) and leaf[0] == "address":
        return number(token) == leaf[1] or token in ("nullptr", "nil") and leaf[1] == 0
    if isinstance(leaf, tuple):
        return '"' in token and unescaped(token).rstrip(b"\0") == leaf[1]
    if isinstance(leaf, (int, float)):
        found = number(token)
        duration = re.fullmatch(r"(-?\d+\.?\d*)(ns|us|µs|ms|s|min|h)", token)
        if duration:
            # Rust's are in nanoseconds, those of C++ in their own unit.
            unit = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}.get(duration[2], 1)
            return leaf in (float(duration[1]), round(float(duration[1]) * unit))
        if found is None:
            # A character of C++ and Rust.
            return token.startswith("'") and leaf in range(0x110000) and (token[1:-1] == chr(int(leaf)) or "\\" in token)
        if math.isnan(leaf):
            return isinstance(found, float) and math.isnan(found)
        return found == leaf or isinstance(found, float) and math.isclose(found, leaf, rel_tol=2e-6)
    if token.startswith(('"', 'b"')):
        # A string has no NULs at its end, which an array of characters shows.
        text = unescaped(token).rstrip(b"\0").decode("utf-8", "replace")
        return text == leaf or text.replace("\ufffd", "") == leaf.replace("\ufffd", "")
    if token.startswith("'") and "\\" in token:
        return unescaped(token[1:-1].join('""')).decode("utf-8", "replace") == leaf
    # What JSON has no number for.
    if leaf in ("NaN", "inf", "-inf"):
        return leaf.lower() in token.lower()
    return token == leaf or token.strip("'") == leaf


def without_missing(value, missing, path):
    """The value with None in the places of what is missing by the notes of its event, where a format has the reasons."""
    if path in missing and value == missing[path]:
        return None
    if isinstance(value, dict):
        return {name: without_missing(part, missing, f"{path}.{name}") for name, part in value.items()}
    if isinstance(value, list):
        return [without_missing(part, missing, f"{path}[{index}]") for index, part in enumerate(value)]
    return value


def agrees(value, text):
    """Whether all parts of a value are in the text, in order."""
    if isinstance(value, str) and value == text:
        return True
    if value == "null" and text in ("None", "nullopt", "null"):
        return True
    tokens = TOKEN.findall(text)
    at = 0
    for leaf in leaves(value):
        has_strings = any(token.startswith(('"', 'b"')) for token in tokens)
        if isinstance(leaf, str) and " " in leaf and (not has_strings or leaf.startswith("(")):
            # Words that are no string: flags with `|` between them, a name with template arguments.
            if leaf not in text:
                return False
            continue
        # An element that is there many times is shown once: the token may be used again.
        for index in [*range(at, len(tokens)), *([at - 1] if at > 0 and "repeats" in text else [])]:
            if is_same(leaf, tokens[index]):
                at = max(at, index + 1)
                break
        else:
            return False
    return True
