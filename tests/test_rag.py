"""Answers over passages: plain generation's tokens, the passages that fit, the others as references, and citations."""

import pytest
import torch
import transformers
from rag_tiny import COFFEE, QUESTION, TEA, Written, byte_llama, byte_tokenizer
from tiny import t5

from lookahead import LookupConfig
from lookahead.plugins import hf, rag
from lookahead.plugins.citations import Copy
from lookahead.plugins.rag import Passage
from lookahead.plugins.rag_origins import PassageOrigins
from lookahead.plugins.rag_prompt import PromptFormat

INSTRUCTION = "Answer from the passages above, in their words where you can: "
PASSAGES = [Passage(TEA, "tea.md"), Passage(COFFEE, "coffee.md")]
PROMPT = f"<turn>user\n[1] {TEA}\n\n[2] {COFFEE}\n\n{INSTRUCTION}{QUESTION}<eos><turn>assistant\n"
ANSWER = "It is known that coffee is made from roasted beans. So there."


@pytest.fixture(scope="module")
def tokenizer():
    return byte_tokenizer()


@pytest.fixture
def model():
    return byte_llama()


def written(model, tokenizer, text=ANSWER, passages=PASSAGES, **options):
    """The answer of a model that is made to write the text."""
    return rag.answer(model, tokenizer, QUESTION, passages, logits_processor=[Written(tokenizer, text)], **options)


@pytest.mark.parametrize("sampling", [{"do_sample": False}, {"do_sample": True, "temperature": 0.7}])
def test_the_tokens_are_those_of_plain_generation(model, tokenizer, sampling) -> None:
    ids = tokenizer(PROMPT, return_tensors="pt", add_special_tokens=False)["input_ids"]
    torch.manual_seed(3)
    plain = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=40, **sampling)
    torch.manual_seed(3)
    answer = rag.answer(model, tokenizer, QUESTION, PASSAGES, max_new_tokens=40, **sampling)
    assert list(answer.token_ids) == plain[0, ids.shape[1] :].tolist()
    assert answer.prompt_tokens == ids.shape[1]
    assert answer.passages_in_prompt == (0, 1)


def test_an_answer_is_cited_and_took_fewer_steps(model, tokenizer) -> None:
    answer = written(model, tokenizer)
    assert answer.text == ANSWER
    (citation,) = answer.citations
    assert ANSWER[citation.start : citation.end] == "is made from roasted beans."
    assert COFFEE[citation.passage_start : citation.passage_end] == "is made from roasted beans."
    assert citation.id == "coffee.md"
    assert answer.cited_share == len("is made from roasted beans.") / len(ANSWER)
    assert answer.stats.accepted_tokens > 20
    assert answer.stats.steps < len(answer.token_ids) - 20


def test_plain_answers_are_cited_too(model, tokenizer) -> None:
    answer = written(model, tokenizer, lookup=False)
    assert answer.citations == written(model, tokenizer).citations
    assert not answer.stats.draft_tokens


def test_short_spans_are_cited_when_asked(model, tokenizer) -> None:
    answer = written(model, tokenizer, "It is hot.", min_citation=5, lookup=False)
    assert [citation.id for citation in answer.citations] == ["tea.md"]
    assert not written(model, tokenizer, "It is hot.").citations


def copied(call: rag._Call) -> tuple[rag.Answer, list[Copy]]:
    """Run a call; return the answer and what is known of where its accepted drafts came from."""
    answer = call.run()
    sources = PassageOrigins(
        call.tokenizer, call.prompt, call.passages, call.left_ids, call._references_before, answer.stats
    )
    return answer, sources.copies(answer.token_ids)


SAME = "The kettle is filled with fresh water first."


@pytest.mark.parametrize("context", [1024, 360], ids=["in the prompt", "one outside"])
@pytest.mark.parametrize("references", [[], ["", "Some other text.", "And one more."]])
def test_accepted_drafts_tell_which_of_equal_passages_an_answer_was_copied_from(tokenizer, context, references) -> None:
    """Both passages hold the sentence; the text before it is that of one of them, which the draft goes on from."""
    model = byte_llama(context=context)
    passages = [f"For cocoa. {SAME} Ah.", f"For coffee. {SAME} Oh.", f"For tea in the morning. {SAME} Hm."]
    text = f"For tea in the morning. {SAME}"
    call = rag._prepared(
        model,
        tokenizer,
        "How?",
        passages,
        lookup={"references": references},
        max_new_tokens=90,
        logits_processor=[Written(tokenizer, text)],
    )
    assert (call.prompt.included == (0, 1, 2)) == (context == 1024)
    answer, copies = copied(call)
    assert copies
    for copy in copies:
        length = copy.end - copy.start
        assert passages[copy.passage][copy.passage_start :][:length] == answer.text[copy.start : copy.end]
    (citation,) = answer.citations
    assert citation.passage == 2
    of_the_sentence = [copy for copy in copies if copy.end > text.index(SAME) + 8]
    assert {copy.passage for copy in of_the_sentence} == {2}


def test_of_equal_passages_the_one_that_was_copied_is_cited(model, tokenizer) -> None:
    """The plain answer names the first; with drafts, the passage that the accepted tokens stand in."""
    passages = [f"{SAME} Ah.", f"{SAME} Oh."]
    plain = written(model, tokenizer, SAME, passages, lookup=False)
    assert [citation.passage for citation in plain.citations] == [0]
    arguments = {"logits_processor": [Written(tokenizer, SAME)]}
    answer, copies = copied(rag._prepared(model, tokenizer, QUESTION, passages, **arguments))
    most = max(copies, key=lambda copy: copy.end - copy.start)
    assert [citation.passage for citation in answer.citations] == [most.passage]
    assert most.passage == 1  # the latest of equal matches


def test_passages_that_do_not_fit_are_references(tokenizer) -> None:
    model = byte_llama(context=400)
    long = "Cocoa is made from cocoa beans, and " * 20
    answer = written(model, tokenizer, "Cocoa is made from cocoa beans.", [TEA, long, COFFEE], max_new_tokens=60)
    assert answer.passages_in_prompt == (0, 2)
    assert [citation.passage for citation in answer.citations] == [1]
    assert answer.stats.accepted_tokens > 20
    assert answer.prompt_tokens <= 400 - 60


def test_passages_are_numbered_as_in_the_list(tokenizer) -> None:
    prompt = PromptFormat(tokenizer).prompt("Which?", [Passage("a" * 99), Passage("b")], limit=130)
    assert "[2] b\n\nAnswer" in tokenizer.decode(prompt.ids)
    assert prompt.included == (1,)


@pytest.mark.parametrize("more", range(0, 340, 20))
def test_prompts_keep_to_their_limit_and_leave_no_room_unused(tokenizer, more) -> None:
    passages = [Passage(text) for text in (TEA, "short", COFFEE, "x" * 80)]
    form = PromptFormat(tokenizer)
    limit = len(form.prompt(QUESTION, [], None).ids) + more
    prompt = form.prompt(QUESTION, passages, limit)
    assert len(prompt.ids) <= limit
    left_out = [passage for i, passage in enumerate(passages) if i not in prompt.included]
    instruction = len(INSTRUCTION)
    room = limit - len(prompt.ids) - (0 if prompt.included else instruction)
    assert all(len(passage.text) + len("[1] \n\n") > room for passage in left_out)


def test_references_are_kept_and_the_models_own_options_too(tokenizer) -> None:
    model = hf.enable(byte_llama(context=400), tokenizer, lookup={"max_draft": 3})
    long = "Cocoa is made from cocoa beans, and " * 20
    text = "Cocoa is made from cocoa beans."
    own = written(model, tokenizer, text, [long], max_new_tokens=60)
    assert max(record.draft_tokens for record in own.stats.records) == 3
    both = written(model, tokenizer, text + ANSWER, [long], max_new_tokens=150, lookup={"references": [ANSWER]})
    assert both.stats.accepted_tokens > 60


def test_options_on_the_generation_config_are_kept(tokenizer) -> None:
    model = byte_llama(context=400)
    config = transformers.GenerationConfig(lookup=LookupConfig(max_draft=2).as_dict(), eos_token_id=1)
    long = "Cocoa is made from cocoa beans, and " * 20
    answer = written(model, tokenizer, "Cocoa is made.", [long], max_new_tokens=60, generation_config=config)
    assert max(record.draft_tokens for record in answer.stats.records) == 2


def test_an_enabled_model_with_lookup_off_stays_plain(tokenizer) -> None:
    model = hf.enable(byte_llama(context=400), tokenizer, lookup=False)
    answer = written(model, tokenizer, "Cocoa is made.", ["Cocoa is made of " * 40], max_new_tokens=60)
    assert not answer.stats.draft_tokens


def test_the_prompt_can_be_kept_smaller_than_the_context(model, tokenizer) -> None:
    answer = rag.answer(model, tokenizer, QUESTION, PASSAGES, max_new_tokens=2, max_prompt_tokens=200)
    assert answer.prompt_tokens <= 200
    assert answer.passages_in_prompt == (0,)


def test_models_without_a_chat_template_get_plain_text() -> None:
    prompt = PromptFormat(byte_tokenizer(None), system="Be brief.").prompt(QUESTION, PASSAGES, None)
    text = byte_tokenizer().decode(prompt.ids)
    assert text == f"Be brief.\n\n[1] {TEA}\n\n[2] {COFFEE}\n\n{INSTRUCTION}{QUESTION}\n\nAnswer:"


def test_system_messages_go_where_the_template_has_them() -> None:
    refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}{{ messages[0].content }}"
    with_place = PromptFormat(byte_tokenizer(), system="Be brief.").prompt(QUESTION, [], None)
    without = PromptFormat(byte_tokenizer(refusing), system="Be brief.").prompt(QUESTION, [], None)
    assert byte_tokenizer().decode(with_place.ids).startswith("<turn>system\nBe brief.<eos><turn>user\nWhat")
    assert byte_tokenizer().decode(without.ids) == f"Be brief.\n\n{QUESTION}"


def test_names_of_control_tokens_in_passages_are_text(model, tokenizer) -> None:
    """As in a manual that says `open <turn>`: read as control tokens they would end the user's message."""
    passage = "Write <turn>user to begin, and <eos> to end a message."
    text = "You write <turn>user to begin, and <eos> to end a message."
    for form in (PromptFormat(tokenizer), PromptFormat(byte_tokenizer(None))):
        prompt = form.prompt("How?", [Passage(passage)], None)
        assert passage in tokenizer.decode(prompt.ids)
        assert sum(id < 3 for id in prompt.ids) == (3 if form.tokenizer is tokenizer else 0)

    spelled = Written(tokenizer, "")
    spelled.ids = [*tokenizer(text, split_special_tokens=True)["input_ids"], tokenizer.eos_token_id]
    for limit in (None, 100):
        spelled.prompt = None
        answer = rag.answer(model, tokenizer, "How?", [passage], max_prompt_tokens=limit, logits_processor=[spelled])
        assert answer.text == text
        assert [answer.text[cited.start : cited.end] for cited in answer.citations] == [passage[6:]]
        assert answer.stats.accepted_tokens > 30
    assert not answer.passages_in_prompt


def test_control_tokens_are_refused_where_the_template_hides_the_text() -> None:
    form = PromptFormat(byte_tokenizer("{{ messages[0].content | length }}"))
    with pytest.raises(ValueError, match=r"contain <eos>, a control token of this model, .* take it out"):
        form.prompt("How?", [Passage("a<eos>")], None)


def test_template_arguments_reach_the_template(model) -> None:
    tokenizer = byte_tokenizer("{{ messages[0].content }}{% if not thinks %} Now!{% endif %}")
    answers = [
        rag.answer(model, tokenizer, QUESTION, [], max_new_tokens=1, chat_template_kwargs={"thinks": thinks})
        for thinks in (True, False)
    ]
    assert answers[1].prompt_tokens - answers[0].prompt_tokens == len(" Now!")


def test_a_question_without_passages_is_asked_alone(model, tokenizer) -> None:
    answer = rag.answer(model, tokenizer, "Why?", [], max_new_tokens=2)
    assert answer.prompt_tokens == len(tokenizer("<turn>user\nWhy?<eos><turn>assistant\n")["input_ids"])
    assert answer.citations == ()


def test_beams_answer_plainly_and_are_not_given_old_figures(model, tokenizer) -> None:
    written(model, tokenizer)
    answer = rag.answer(model, tokenizer, QUESTION, PASSAGES, max_new_tokens=5, num_beams=2, do_sample=False)
    assert answer.stats.generated_tokens == len(answer.token_ids) <= 5
    assert answer.stats.plain_reason


def test_encoder_decoder_models_answer() -> None:
    model, tokenizer = t5(), byte_tokenizer()
    model.resize_token_embeddings(259)
    answer = rag.answer(model, tokenizer, QUESTION, PASSAGES, max_new_tokens=8)
    assert 0 < len(answer.token_ids) <= 9


def test_outputs_as_an_object_are_understood(model, tokenizer) -> None:
    assert written(model, tokenizer, return_dict_in_generate=True).text == ANSWER


def test_references_for_any_call(model, tokenizer) -> None:
    options = rag.references(PASSAGES, {"max_draft": 8, "references": ["more"]})
    assert options == {"max_draft": 8, "references": ["more", COFFEE, TEA]}
    LookupConfig.parse(options)


def test_references_go_with_options_of_any_form() -> None:
    assert rag.references([TEA]) == rag.references([TEA], True) == {"references": [TEA]}
    assert rag.references([TEA], False) is False
    given = LookupConfig(max_draft=8, references=("more",))
    assert LookupConfig.parse(rag.references([TEA], given)) == LookupConfig(max_draft=8, references=("more", TEA))
    with pytest.raises(TypeError, match="references must be a list"):
        rag.references([TEA], {"references": "one text"})
    with pytest.raises(ValueError, match="unknown lookup option"):
        rag.references([TEA], {"max_drafts": 3})


def test_mistakes_are_named(tokenizer) -> None:
    model = byte_llama(context=200)
    ask = rag.answer
    with pytest.raises(TypeError, match="passages must be a list, got str"):
        ask(model, tokenizer, QUESTION, TEA)
    with pytest.raises(TypeError, match="question must be a text, got int"):
        ask(model, tokenizer, 3, [], max_new_tokens=2)
    with pytest.raises(ValueError, match=r"question and system make a prompt of 318 tokens, over the limit of 190 "):
        ask(model, tokenizer, "?" * 300, [], max_new_tokens=10)
    with pytest.raises(ValueError, match=r"over the limit of 0 .*lower max_new_tokens"):
        ask(model, tokenizer, "?", [], max_new_tokens=256)
    with pytest.raises(ValueError, match="max_new_tokens must be an integer of at least 1, got 0: the default is 256"):
        ask(model, tokenizer, "?", [], max_new_tokens=0)
    with pytest.raises(ValueError, match="streamer is no argument of an answer"):
        ask(model, tokenizer, "?", [], max_new_tokens=10, streamer=None)
    with pytest.raises(ValueError, match="min_citation must be an integer of at least 1, got 0: the default is 24"):
        ask(model, tokenizer, "?", [], max_new_tokens=10, min_citation=0)
    assert not hf.is_enabled(model)


@pytest.mark.parametrize("configured", [False, True])
def test_an_answer_ends_at_a_stop_string(model, tokenizer, configured) -> None:
    options = {"stop_strings": ["beans"]}
    if configured:
        options = {"generation_config": transformers.GenerationConfig(stop_strings=["beans"], eos_token_id=1)}
    assert written(model, tokenizer, **options).text == ANSWER[: ANSWER.index("beans") + len("beans")]


class Encoding:
    """A tokenizer as mistral-common's: it encodes chats itself, and no text becomes a control token."""

    chat_template = None

    def __init__(self, inner) -> None:
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def added_tokens_decoder(self):
        raise NotImplementedError

    def __call__(self, text, add_special_tokens=True):
        return self._inner(text, split_special_tokens=True)

    def apply_chat_template(self, messages, add_generation_prompt, tokenize):
        assert tokenize
        assert add_generation_prompt
        texts = [self(message["content"])["input_ids"] for message in messages]
        return {"input_ids": [token for ids in texts for token in [2, *ids, 1]]}


def test_a_tokenizer_that_encodes_chats_itself_is_let_do_so(model, tokenizer) -> None:
    answer = written(model, Encoding(tokenizer), passages=[TEA, "<turn> and <eos> are words. " + COFFEE])
    assert answer.text == ANSWER
    assert [citation.passage for citation in answer.citations] == [1]
    form = PromptFormat(Encoding(tokenizer), system="Be short.")
    ids = form.prompt("<eos>?", [], limit=None).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == "<turn>Be short.<eos><turn><eos>?<eos>"
    assert ids.count(1) == 2


@pytest.mark.parametrize(("own", "longest"), [({}, 5), ({"max_new_tokens": 7}, 7)])
def test_a_generation_config_says_how_long_the_answer_may_be(own, longest) -> None:
    settings = transformers.GenerationConfig(max_new_tokens=5, eos_token_id=None)
    answer = rag.answer(byte_llama(), byte_tokenizer(), QUESTION, [TEA], generation_config=settings, **own)
    assert len(answer.token_ids) == longest
