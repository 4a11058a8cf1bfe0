"""Architectures of the mapping that the suite can't try, and why; each entry is tested to be still true."""

UNTRIED = {
    "blt": "plain generate fails on a configuration of its own defaults",
    "dots3_note": "its audio tower has sizes that must agree with each other",
    "encoder-decoder": "a pair of two other architectures, each with settings of its own",
    "gemma3n": "its image tower needs the timm package",
    "gemma4_assistant": "drafts for another model, whose states it reads",
    "gemma4_unified_assistant": "drafts for another model, whose states it reads",
    "granite_speech": "its audio tower does not follow the sizes of a configuration",
    "granite_speech_plus": "its audio tower does not follow the sizes of a configuration",
    "musicgen": "writes sound in several streams of tokens, and is built from three models",
    "musicgen_melody": "writes sound in several streams of tokens, and is built from three models",
    "nemo_speechlm": "writes from sound alone",
    "vibevoice_asr": "its audio tower does not follow the sizes of a configuration",
    "voxtral_realtime": "writes from sound alone",
}
