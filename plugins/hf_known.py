"""Architectures whose multi-token forward the conformance suite compares with token-by-token decoding."""

# fmt: off
EXACT = frozenset({
    "afmoe", "apertus", "apertus1p5_text", "arcee", "aria_text", "audioflamingo3", "axk1", "axk2", "bailing_hybrid",
    "bamba", "bart", "beam", "bert", "bert-generation", "big_bird", "bigbird_pegasus", "biogpt", "bitnet",
    "blenderbot", "blenderbot-small", "bloom", "camembert", "codegen", "cohere", "cohere2", "cohere2_moe",
    "cohere_compass_text", "ctrl", "cwm", "data2vec-text", "dbrx", "deepseek_v2", "deepseek_v3", "deepseek_v32",
    "deepseek_v4", "diffllama", "doge", "dory", "dots1", "dots3_note_text", "electra", "emu3_text_model", "ernie",
    "ernie4_5", "ernie4_5_moe", "exaone", "exaone4", "exaone_moe", "falcon", "falcon_h1", "flex_olmo", "flint",
    "fuyu", "gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n_text", "gemma4", "gemma4_text", "gemma4_unified",
    "gemma4_unified_text", "git", "glm", "glm4", "glm4_moe", "glm4_moe_lite", "glm_moe_dsa", "glmasr", "got_ocr2",
    "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gpt_neox_japanese", "gpt_oss", "gptj", "granite", "granite_swa",
    "granitemoe", "granitemoe_swa", "granitemoehybrid", "granitemoeshared", "helium", "hrm_text",
    "hunyuan_v1_dense", "hunyuan_v1_moe", "hy_v3", "hy_v4", "hyperclovax", "inkling2_loop_text", "inkling2_text",
    "inkling_text", "internlm3", "iquestcoder", "jais2", "jetmoe", "kimi_linear", "kolibri1", "laguna", "lara_mini",
    "led", "lfm2", "lfm2_moe", "lfm3", "llama", "llama4_text", "longcat_flash", "longt5", "m2m_100", "mamba2",
    "marian", "mbart", "megatron-bert", "mellum", "mimo_v2_flash", "minicpm3", "minimax_m2", "minimax_m3_vl_text",
    "ministral", "ministral3", "mistral", "mixtral", "mllama_text_model", "modernbert-decoder",
    "moss_transcribe_diarize", "mpt", "mt5", "musicflamingo", "mvp", "nanochat", "nemotron", "nemotron_h",
    "nllb-moe", "olmo", "olmo2", "olmo3", "olmo_hybrid", "olmoe", "omniasr", "openai-gpt", "opt", "pegasus",
    "pegasus_x", "persimmon", "phi", "phi3", "phi4_multimodal", "phimoe", "plbart", "qwen2", "qwen2_audio",
    "qwen2_moe", "qwen3", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_asr", "qwen3_moe", "qwen3_next",
    "qwen4_exp_text", "rembert", "roberta", "roberta-prelayernorm", "roc_bert", "roformer", "sarvam_mla",
    "sarvam_moe", "seamless_m4t", "seamless_m4t_v2", "seed_oss", "smollm3", "solar_open", "stablelm", "starcoder2",
    "switch_transformers", "t5", "t5gemma", "t5gemma2", "trocr", "umt5", "vaultgemma", "voxtral", "whisper", "xglm",
    "xlm-roberta", "xlm-roberta-xl", "xmod", "youtu", "zamba2", "zaya",
})
# fmt: on
"""Values of ``config.model_type``; of others the forward is measured at first use."""

# fmt: off
TREES = frozenset({
    "apertus", "apertus1p5_text", "arcee", "aria_text", "axk1", "bitnet", "codegen", "cohere",
    "dbrx", "deepseek_v2", "deepseek_v3", "diffllama", "dots1", "ernie4_5",
    "ernie4_5_moe", "exaone", "exaone4", "flex_olmo", "gemma", "glm", "glm4", "glm4_moe", "glm4_moe_lite",
    "gpt2", "gpt_bigcode", "gpt_neox", "gpt_neox_japanese", "gptj", "granite", "granitemoe", "granitemoeshared",
    "helium", "hunyuan_v1_dense", "hunyuan_v1_moe", "hy_v3", "hyperclovax", "internlm3", "iquestcoder", "jais2",
    "jetmoe", "llama", "minicpm3", "minimax_m2", "ministral3", "mistral", "mixtral", "nanochat", "nemotron",
    "olmo", "olmo2", "olmoe", "opt", "persimmon", "phi", "phi3", "phimoe", "qwen2", "qwen2_moe", "qwen3",
    "qwen3_moe", "sarvam_mla", "sarvam_moe", "seed_oss", "smollm3", "solar_open", "stablelm", "starcoder2",
    "xglm", "youtu",
})
# fmt: on
"""Those that read a tree of draft tokens as they read its branches one by one, where every layer sees all positions.

What a token sees there, mask and positions alone decide: so rows with holes and rows laid end to end are read as well.
"""
