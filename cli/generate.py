"""``specdec-lookup generate``: a prompt in, the model's text out."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookahead.cli.console import Console, Environment
from lookahead.cli.errors import CommandError, ExitStatus, UsageError, os_reason
from lookahead.cli.options import add_color_option, add_generation_options, add_model_options, add_trace_option

if TYPE_CHECKING:
    from lookahead.cli.generation import Completion, Generator
    from lookahead.cli.trace import Trace

_STDIN = "-"
_DEFAULT_LENGTH = 512
_DESCRIPTION = """\
Complete a prompt. The text streams to stdout as it is written; what repeats the prompt or the text so far is looked
up there instead of being computed token by token, with the same result."""
_EPILOG = """\
examples:
  specdec-lookup generate "Explain suffix automata in three sentences."
  specdec-lookup generate --file minutes.txt --stats --max-new-tokens 300
  git diff | specdec-lookup generate - --model Qwen/Qwen2.5-7B-Instruct
  specdec-lookup generate --raw "def fibonacci(n):"
  specdec-lookup generate "List ten colours." --temperature 0.8 --seed 1 --trace colours.trace
exit codes: 0 done, 2 wrong usage, 3 failed, 130 interrupted"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommand's arguments."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="the prompt; - for stdin")
    parser.add_argument("--file", metavar="PATH", help="file that holds the prompt; - for stdin")
    parser.add_argument(
        "--raw", action="store_true", help="continue the prompt as it is, without the model's chat template"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--stats", action="store_true", help="show the statistics on stderr afterwards")
    output.add_argument("--json", action="store_true", help="one JSON object with text and statistics on stdout")
    add_trace_option(output)
    add_color_option(output)
    add_generation_options(parser, f"{_DEFAULT_LENGTH}, or what the context leaves")
    add_model_options(parser)


def run(args: argparse.Namespace, environment: Environment) -> ExitStatus:
    """Complete one prompt."""
    console = Console(environment, args.color)
    prompt = _prompt(args, environment)
    from lookahead.cli.trace_file import tracing  # here, because --help shall not wait for it

    with tracing(args, console) as trace:
        return _complete(args, prompt, console, trace)


def _complete(args: argparse.Namespace, prompt: str, console: Console, trace: "Trace | None") -> ExitStatus:
    from lookahead.cli.generation import room_for_answer
    from lookahead.cli.status import summary

    generator = load_generator(args, console, trace)
    ids = _prompt_ids(generator.tokenizer, prompt, raw=args.raw)
    try:
        limit = room_for_answer(generator.context_length, len(ids), 1, args.max_new_tokens or _DEFAULT_LENGTH)
    except CommandError as error:
        raise CommandError(f"the prompt {error}") from None
    _write(generator, ids, limit, args, console)
    if args.stats:
        console.say(summary(generator.stats()))
    return ExitStatus.OK


def load_generator(args: argparse.Namespace, console: Console, trace: "Trace | None" = None) -> "Generator":
    """Return the model that the command line asks for."""
    from lookahead.cli.generation import Generator, Sampling
    from lookahead.cli.learned import Learned
    from lookahead.cli.models import ModelOptions, load

    model, tokenizer = load(ModelOptions.from_args(args), console)
    learned = Learned(model.name_or_path, console.environment.variables)
    return Generator(
        model, tokenizer, Sampling.from_args(args), lookup=not args.no_lookup, learned=learned, trace=trace
    )


def _write(generator: "Generator", ids: list[int], limit: int, args: argparse.Namespace, console: Console) -> None:
    if args.json:
        console.data(_as_json(generator.complete(ids, limit)))
        return
    done = generator.complete(ids, limit, _text_streamer(generator.tokenizer, console))
    if console.environment.stdout_is_terminal and not done.text.endswith("\n"):
        console.data(b"\n")


def _as_json(done: "Completion") -> bytes:
    record = {"text": done.text, "finish_reason": "length" if done.cut else "stop", "stats": done.stats}
    return json.dumps(record).encode() + b"\n"


def _text_streamer(tokenizer: Any, console: Console) -> Any:
    """Return a streamer that writes the text to stdout, verbatim, word by word."""
    from transformers import TextStreamer

    class Streamer(TextStreamer):
        def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
            console.data(text.encode())

    return Streamer(tokenizer, skip_prompt=True, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def _prompt_ids(tokenizer: Any, prompt: str, *, raw: bool) -> list[int]:
    from lookahead.cli.prompts import encode, render

    if raw or not getattr(tokenizer, "chat_template", None):
        return encode(tokenizer, prompt, special_tokens=True)
    rendered, is_chat = render(tokenizer, [{"role": "user", "content": prompt}])
    return encode(tokenizer, rendered, special_tokens=not is_chat)


def _prompt(args: argparse.Namespace, environment: Environment) -> str:
    """Return the prompt, from wherever it is given."""
    if (args.prompt is None) == (args.file is None):
        raise UsageError("give the prompt as an argument or with --file PATH, one of them (- is stdin)")
    if args.file == "":
        raise UsageError("--file is empty: name the file that holds the prompt, or - for stdin")
    given_as_file = args.file or (_STDIN if args.prompt == _STDIN else None)
    text = args.prompt if given_as_file is None else _read_prompt(given_as_file, environment)
    if not text.strip():
        raise UsageError("the prompt is empty: say what to complete")
    return text


def _read_prompt(path: str, environment: Environment) -> str:
    try:
        data = environment.stdin.read() if path == _STDIN else Path(path).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise CommandError(f"the prompt file {path} can't be read: {os_reason(error)}") from None
    except UnicodeDecodeError:
        raise CommandError(f"the prompt file {path} is not UTF-8 text: convert it first") from None
