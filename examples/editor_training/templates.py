"""The functions of made-up files; `$` names what is drawn anew, `$DOC` is a docstring or nothing."""

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
