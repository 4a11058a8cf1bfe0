"""The methods of made-up files; see `templates` for what `$` names."""

SERVICE_METHODS = (  # of a class that keeps what it is made with
    """\
def $name(self, $text)$str:
    $DOC
    self.$count += 1
    return text.replace($s, str(self.$first))
""",
    """\
def $name(self)$none:
    $DOC
    self.$count = 0
""",
    """\
def $name(self, $second)$str:
    $DOC
    for attempt in range($n):
        $v = self.$helper($second)
        if $v:
            return $v
    raise RuntimeError($s)
""",
    """\
def $name(self)$str:
    $DOC
    return f"{self.$first} {self.$second}"
""",
)
NUMBER_METHODS = (
    """\
def $name(self)$type:
    $DOC
    return self.$field * $digit
""",
    """\
def $name(self, $other_typed)$bool:
    $DOC
    return self.$field > $other
""",
    """\
def $name(self, $step)$none:
    $DOC
    self.$field += step
""",
)
TEXT_METHODS = (
    """\
def $name(self)$str:
    $DOC
    return self.$field.strip().$change()
""",
    """\
def $name(self)$str:
    $DOC
    return f"{self.$field} $between {self.$second}"
""",
)
FLAG_METHODS = (
    """\
def $name(self)$none:
    $DOC
    self.$field = not self.$field
""",
)
CONTAINER_METHODS = (
    """\
def $name(self, $key_typed, $noun_typed)$none:
    $DOC
    if $key in self.$store:
        raise $error(f"$message: {$key}")
    self.$store[$key] = $noun
""",
    """\
def $name(self, $key_typed)$value:
    $DOC
    try:
        return self.$store[$key]
    except KeyError:
        raise KeyError(f"$message: {$key}") from None
""",
    """\
def $name(self)$int:
    $DOC
    return len(self.$store)
""",
    """\
def $name(self, $key_typed)$bool:
    $DOC
    return $key in self.$store
""",
    """\
def $name(self, $key_typed)$none:
    $DOC
    self.$store.pop($key, None)
""",
    """\
def $name(self)$list_str:
    $DOC
    return sorted(self.$store)
""",
)
ENTITY_METHODS = (  # of a container of the file's dataclass
    """\
def $name(self, $field_typed)$list_value:
    $DOC
    return [$noun for $noun in self.$store.values() if $noun.$field == $field]
""",
    """\
def $name(self, $key_typed, $step)$int:
    $DOC
    if step <= 0:
        raise $error("$word must be positive")
    $noun = self.$store[$key]
    $noun.$field += step
    return $noun.$field
""",
)
MORE_ENTITY_METHODS = (  # of varied files
    """\
def $name(self)$int:
    $DOC
    return sum(($noun.$field for $noun in self.$store.values()), $n)
""",
    """\
def $name(self)$int:
    $DOC
    return max((len($noun.$field) for $noun in self.$store.values()), default=$n)
""",
)
LIMIT_METHODS = (  # of a container with a number as its limit
    """\
def $name(self)$bool:
    $DOC
    return len(self.$store) >= self.$limit
""",
    """\
def $name(self, $key_typed, $noun_typed)$none:
    $DOC
    if len(self.$store) > self.$limit:
        raise $error(f"{$key}: {len(self.$store)} ${word}s")
    self.$store[$key] = $noun
""",
)
# Methods that begin and end alike, one behind the other: there a copy is lost most easily.
TWINS = (
    (
        """\
def $name(self, $key_typed, $noun_typed)$int:
    $DOC
    if $key in self.$store:
        raise $error(f"$message: {$key}")
    self.$store[$key] = $noun
    return len(self.$store)
""",
        """\
def $name(self, $key_typed)$int:
    $DOC
    if $key not in self.$store:
        raise $error(f"$message: {$key}")
    self.$store.pop($key)
    return len(self.$store)
""",
    ),
    (
        """\
def $name(self, $key_typed)$bool:
    $DOC
    $noun = self.$store.get($key)
    return $noun is None
""",
        """\
def $name(self, $key_typed)$bool:
    $DOC
    $noun = self.$store.get($key)
    return $noun is not None
""",
    ),
)
ENTITY_TWINS = (  # of a container of the file's dataclass
    (
        ENTITY_METHODS[1],
        """\
def $name(self, $key_typed, $step)$int:
    $DOC
    if step <= 0:
        raise $error("$word must be positive")
    $noun = self.$store[$key]
    if $noun.$field < step:
        raise $error(f"$message: {$noun.$field} of {$key}")
    $noun.$field -= step
    return $noun.$field
""",
    ),
    (
        ENTITY_METHODS[0],
        """\
def $name(self, $field_typed)$list_value:
    $DOC
    return [$noun for $noun in self.$store.values() if $noun.$field > $field]
""",
    ),
)
