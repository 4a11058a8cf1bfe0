"""The functions and methods of made-up files; `$` names what is drawn anew, `$DOC` is a docstring or nothing."""

FIXED = frozenset(["path", "file", "text", "first", "second", "step", "attempt"])  # the names that all files share

FUNCTIONS = (
    """\
def $name($numbers, $b_default)$int:
    $DOC
    $v = 0
    for $noun in $nouns:
        if $noun > $n:
            $v += 1
    return $v
""",
    """\
def $name($texts)$list_str:
    $DOC
    $v = []
    for $noun in $nouns:
        if $noun:
            $v.append($noun.strip())
    return $v
""",
    """\
def $name($texts, $b_default)$str:
    $DOC
    $v = [f"{$noun}: {$b}" for $noun in $nouns]
    return "\\n".join($v)
""",
    """\
def $name($a_typed, $b_default)$str:
    $DOC
    return f"{$a} {$b}"
""",
    """\
def $name($a_typed, $b_default)$dict:
    $DOC
    return {"$a": $a, "$b": $b}
""",
    """\
def $name($numbers)$int:
    $DOC
    $v = $nouns[0]
    for $noun in $nouns[1:]:
        if $noun > $v:
            $v = $noun
    return $v
""",
    """\
def $name($texts)$dict_int:
    $DOC
    $v = {}
    for $noun in $nouns:
        $v[$noun] = $v.get($noun, 0) + 1
    return $v
""",
    """\
def $name(path, $b_default):
    $DOC
    with open(path, encoding="utf-8") as file:
        $v = file.read()
    return $v[:$n]
""",
    """\
def $name($numbers, $b_default)$none:
    $DOC
    if not $nouns:
        raise ValueError($s)
    for $noun in $nouns:
        print($noun)
""",
    """\
def $name($text)$int:
    $DOC
    $v = text.strip().split($s)
    return len($v) + $n
""",
    """\
def $name(first, second, $b_default):
    $DOC
    if first == second:
        return $n
    $v = first - second
    return $v * $m
""",
    """\
def $name($numbers)$float:
    $DOC
    $v = len($nouns)
    if $v == 0:
        return 0.0
    return max($nouns) / $v
""",
)
MORE_FUNCTIONS = (  # of varied files
    """\
def $name(path, $texts, $b_default):
    $DOC
    with open(path, "w", $b=$b) as file:
        file.write("\\n".join($nouns))
""",
    """\
def $name($texts, $b_default)$str:
    $DOC
    $v = ", ".join($nouns)
    return json.dumps($v, $b=$b)
""",
    """\
def $name($numbers)$int:
    $DOC
    $v = $n
    for $noun in $nouns:
        $v += $noun * $m
    return $v
""",
    """\
def $name($a_typed, $b_default)$bool:
    $DOC
    if $a is None:
        return False
    $v = str($a).lower()
    return $v != $b
""",
    """\
def $name($numbers)$none:
    $DOC
    print($s, len($nouns))
    for $noun in $nouns:
        print(f"{$noun}: {$noun * $m}")
""",
    """\
def $name($text)$list_str:
    $DOC
    return [$v for $v in text.split($s) if $v]
""",
    """\
def $name($nouns):
    $DOC
    return not $nouns
""",
)
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
ENTITY_FUNCTIONS = (  # of a file that has a dataclass
    """\
def $name($entity_typed)$str:
    $DOC
    $v = $entity.$field
    return f"$field: {$v}"
""",
    """\
def $name($entities_typed)$list_entity:
    $DOC
    return sorted($nouns, key=lambda $noun: $noun.$field)
""",
    """\
def $name($a_typed)$Entity:
    $DOC
    return $made
""",
    """\
def $name($entities_typed)$int:
    $DOC
    return sum((len($noun.$field) for $noun in $nouns), $n)
""",
    """\
def $name($entities_typed)$str:
    $DOC
    rows = [f"{$noun.$field:<10}{$noun.$field2:>$m}" for $noun in $nouns]
    return "\\n".join(rows) if rows else $s
""",
)
CALLERS = (  # use what else the file has
    """\
def $name($argument):
    $DOC
    $v = $call
    return $v
""",
    """\
def $name($argument):
    $DOC
    return [$call, $other]
""",
    """\
def $name($argument):
    $DOC
    $v = $call
    if $v is None:
        return $other
    return $v
""",
    """\
def $name($argument):
    $DOC
    $v = []
    for $noun in range($n):
        $v.append($call)
    return $v
""",
    """\
def $name($argument):
    $DOC
    print($call)
    return $other
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
