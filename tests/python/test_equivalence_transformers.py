"""The architectures of transformers that the acceptance cases leave out, and what their users pass: each on two ranks and on an uneven
length. Llama, Qwen2/3, Mistral, Phi3, GPT-NeoX, GPT-2, Gemma2/3 and BERT are in tests/acceptance."""

import pytest
import torch
import transformers as T

from autosp import torch_compat
from autosp.errors import CompileError
from sharded_runs import Comparison

VOCAB = 97
BASE = dict(
    hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=VOCAB,
    max_position_embeddings=128, use_cache=False, attn_implementation="sdpa", pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip


def llama(**options):
    return T.LlamaForCausalLM(T.LlamaConfig(**BASE | options))


def opt():
    """In evaluation mode: its layer drop draws a number and branches on it."""
    return T.OPTForCausalLM(
        T.OPTConfig(
            hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=VOCAB, word_embed_proj_dim=32, dropout=0.0,
            max_position_embeddings=128, use_cache=False, attn_implementation="sdpa", pad_token_id=0, bos_token_id=1, eos_token_id=2,
        )
    ).eval()  # fmt: skip


def once(model):
    """Called once: transformers then puts the hooks that collect router logits and hidden states, under a lock Dynamo cannot enter."""
    with torch.no_grad():
        model(input_ids=torch.ones(1, 4, dtype=torch.long), output_hidden_states=True)
    return model


def mixtral():
    return once(T.MixtralForCausalLM(T.MixtralConfig(**BASE, num_local_experts=4, output_router_logits=True, router_aux_loss_coef=0.1)))


def qwen3_moe():
    experts = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, decoder_sparse_step=1, head_dim=8)
    return once(T.Qwen3MoeForCausalLM(T.Qwen3MoeConfig(**BASE, **experts, output_router_logits=True, router_aux_loss_coef=0.1)))


def deepseek_v3():
    latent = dict(q_lora_rank=16, kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8)
    experts = dict(n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1, moe_intermediate_size=16, first_k_dense_replace=1)
    return T.DeepseekV3ForCausalLM(T.DeepseekV3Config(**BASE | dict(num_key_value_heads=4), **latent, **experts))


def modernbert():
    return T.ModernBertForMaskedLM(
        T.ModernBertConfig(
            hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, vocab_size=VOCAB, local_attention=8,
            attn_implementation="sdpa", pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, global_attn_every_n_layers=2,
            embedding_dropout=0.0, mlp_dropout=0.0, attention_dropout=0.0,
        )
    )  # fmt: skip


def mamba():
    return T.MambaForCausalLM(
        T.MambaConfig(
            hidden_size=32,
            num_hidden_layers=2,
            vocab_size=VOCAB,
            state_size=4,
            use_cache=False,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
    )


def t5():
    return T.T5ForConditionalGeneration(
        T.T5Config(
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            vocab_size=VOCAB,
            dropout_rate=0.0,
            use_cache=False,
            pad_token_id=0,
            decoder_start_token_id=0,
        )
    )


def vit():
    return T.ViTForImageClassification(
        T.ViTConfig(
            hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=16, patch_size=4, num_labels=5,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="sdpa",
        )
    )  # fmt: skip


def batch(B=2, S=16, ignored=3, seed=1):
    ids = torch.randint(3, VOCAB, (B, S), generator=torch.Generator().manual_seed(seed))
    labels = ids.clone()
    labels[:, :ignored] = -100
    return dict(input_ids=ids, labels=labels)


def case(model, inputs, **options):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    return Comparison(model(), inputs, lambda m, **b: m(**b), **options)


@pytest.mark.parametrize("S, ranks", [(16, 2), (13, 3)])
@pytest.mark.parametrize("model", [opt, mixtral, qwen3_moe, deepseek_v3, modernbert], ids=lambda f: f.__name__)
def test_architecture(model, S, ranks):
    # Grouped products of experts have no rule: they run on whole operands, and are exact.
    experts = model in (mixtral, qwen3_moe, deepseek_v3)
    case(model, batch(S=S)).check(ranks, made_whole=10 if experts else 0, whole_share=0.3 if experts else 0.01)


@pytest.mark.parametrize("model", [opt, modernbert], ids=lambda f: f.__name__)
def test_padded_batch(model):
    inputs = batch(S=13)
    mask = torch.ones(2, 13, dtype=torch.long)
    mask[1, 9:] = 0
    case(model, inputs | dict(attention_mask=mask, labels=inputs["labels"].masked_fill(mask == 0, -100))).check(2)


def test_state_space_model_is_refused():
    """Its scan is a function of functions (vmap), of which tracing loses tensors: said by name, not run."""
    with pytest.raises(CompileError, match="tracing lost track") as info:
        case(mamba, batch(B=1, S=6)).threads(2)
    assert ".py:" in info.value.location


def test_two_sequences():
    """T5: the candidates are listed; naming one shards it."""
    inputs = dict(input_ids=batch(S=12)["input_ids"], labels=batch(S=9, seed=2)["labels"])
    c = case(t5, inputs)
    with pytest.raises(CompileError, match="more than one sequence") as info:
        c.threads(2)
    assert "input_ids dim 1" in str(info.value) and "labels dim 1" in str(info.value) and "sequence_dims=" in str(info.value)
    for named in ({"input_ids": 1}, {"labels": 1}):
        c.check(2, whole_share=0.5, sequence_dims=named)


def test_image_model():
    inputs = dict(pixel_values=torch.randn(2, 3, 16, 16), labels=torch.tensor([1, 4]))
    case(vit, inputs).check(2, whole_share=0.3)


@pytest.mark.parametrize("given", [{}, dict(use_reentrant=False), dict(use_reentrant=True)])
def test_gradient_checkpointing_flag_is_honoured(given):
    def model():
        m = llama()
        m.gradient_checkpointing_enable(given)
        return m.train()

    c = case(model, batch())
    c.check(2)
    report = c.run(2).joint[0].checkpoints
    assert report["recomputed_attention"] == 2 and report["recomputed_collectives"] == 0


@pytest.mark.parametrize(
    "extra",
    [
        dict(position_ids=torch.arange(7, 20)[None]),
        dict(logits_to_keep=4),
        dict(shift_labels=torch.arange(26).view(2, 13) % VOCAB),
        dict(num_items_in_batch=torch.tensor(20)),
        dict(output_hidden_states=True),
        dict(output_attentions=False, return_dict=False),
    ],
    ids=lambda e: next(iter(e)),
)
def test_arguments_of_llama(extra):
    inputs = batch(S=13)
    if "logits_to_keep" in extra:
        del inputs["labels"]
        inputs["labels"] = None
        with torch.no_grad():
            case(llama, inputs | extra).check(2, 3)
        return
    case(lambda: once(llama()), inputs | extra).check(2, 3)


def test_embeddings_as_input():
    inputs = batch(S=13)
    inputs["inputs_embeds"] = torch.randn(2, 13, 32, requires_grad=True)
    del inputs["input_ids"]
    case(llama, inputs).check(2, 3)


@pytest.mark.parametrize("scaling", ["linear", "llama3", "yarn"])
def test_rotary_scaling(scaling):
    rope = dict(rope_type=scaling, rope_theta=10000.0, factor=2.0)
    if scaling == "llama3":
        rope |= dict(low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
    case(lambda: llama(rope_parameters=rope), batch(S=13)).check(2, 3)


def test_rotary_scaling_by_the_largest_position_is_refused():
    """Its rotary table depends on the contents of position_ids; Dynamo says where."""
    with pytest.raises(Exception) as info:
        case(lambda: llama(rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=2.0)), batch())
    assert "modeling_rope_utils.py" in torch_compat.compile_failure(info.value)["location"]


def test_sequence_classification():
    """The logits of each row's last real token."""

    def model():
        return T.LlamaForSequenceClassification(T.LlamaConfig(**BASE, num_labels=3))

    inputs = dict(input_ids=batch(S=13)["input_ids"], labels=torch.tensor([0, 2]))
    inputs["input_ids"][1, 9:] = 0
    case(model, inputs).check(2, 3)


def test_experts_by_batched_products():
    """transformers' other way to run experts; also through AOTAutograd, which cannot trace the backward of the grouped one on CPU."""
    torch.manual_seed(0)
    model = mixtral()
    model.set_experts_implementation("batched_mm")
    c = Comparison(model, batch(S=13), lambda m, **b: m(**b).loss)
    c.check(2, 3, whole_share=0.01)
    c.check_compiled(3)
