"""The recorded set is complete and unchanged."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from realtime_venus.engines.omni.checkpoint import read_pt

from ...kit import golden


def manifest() -> dict[str, Any]:
    return json.loads((golden.folder() / "manifest.json").read_text())


def described(path: Path) -> dict[str, str]:
    """Type and shape of every array in a file, as the manifest writes them."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return {name: _shape(arrays[name].dtype.str[1:], arrays[name].shape) for name in arrays.files}
    if path.suffix == ".pt":
        return {
            name: _shape(str(each.dtype).removeprefix("torch."), each.shape) for name, each in read_pt(path).items()
        }
    raw = path.read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    header: Mapping[str, Any] = json.loads(raw[8 : 8 + length])
    return {name: _shape(each["dtype"], each["shape"]) for name, each in header.items() if name != "__metadata__"}


def _shape(kind: str, shape: Any) -> str:
    return f"{kind}[{','.join(map(str, shape))}]"


# What describes the set in words may be corrected without recording it anew.
@pytest.mark.parametrize("name", sorted(name for name in manifest() if not name.endswith(".md")))
def test_a_file_is_what_was_recorded(name: str) -> None:
    path, entry = golden.folder() / name, manifest()[name]
    assert path.stat().st_size == entry["bytes"]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"]
    if "arrays" in entry:
        assert described(path) == entry["arrays"]


def test_no_recording_is_missing_in_the_manifest() -> None:
    stages = {f"stages/{path.name}" for path in (golden.folder() / "stages").iterdir()}
    assert stages <= set(manifest())


COMPARED = {
    "vision_tower": """
        #x#_ms#_embeddings #x#_ms#_pos_ids #x#_ms#_resampler #x#_ms#_resampler_mean_f# #x#_ms#_resampler_rows
        #x#_ms#_rows #x#_ms#_vit_full #x#_ms#_vit_mean_f# #x#_ms#_vit_rows folded_query
        mixed_#x#ms#_#x#ms#_resampler_rows mixed_tgt_sizes resampler_pos_table_#_#
    """,
    "vision_preprocess": """
        #x#_ms#_absmean_f# #x#_ms#_grid #x#_ms#_mean_f# #x#_ms#_placeholder_slices #x#_ms#_s#_first#
        #x#_ms#_s#_last# #x#_ms#_sha# #x#_ms#_shape #x#_ms#_tgt_sizes
    """,
    "vision_shapes": """
        columns table
    """,
    "vision_pos_buckets": """
        equals_floor_formula table valid
    """,
    "talker": """
        c#_codes c#_cond c#_draw_idx c#_hidden c#_ids c#_k_l#_tail c#_kv_len c#_margin c#_raw_logits_lse
        c#_raw_logits_step# c#_raw_logits_top_ids c#_raw_logits_top_vals c#_u_f# c#_v_l#_tail chunk_columns
        chunks head_code_folded_rows projector_semantic_in projector_semantic_out projector_spk_out rep#_hist
        rep#_out_head rep#_scores_head
    """,
    "llm_prefill": """
        a_embeds a_hidden a_logits_last b_embeds b_hidden b_logits_last b_logits_rows c_embeds c_hidden
        c_logits_last evict_l#_k evict_l#_v_sum_f# evict_len_after evict_len_before evict_next_hidden
        evict_next_logits evict_position_offset ids_a kv_l#_k_tail kv_l#_v_tail merged_logits_last
    """,
    "audio_encoder_stream": """
        embeds hidden_# kv_u#_l#_k kv_u#_l#_v past_after past_before sel_hidden
    """,
    "audio_offline": """
        enc_past_len_after_prepare long_embeds_head long_embeds_seg# long_embeds_shape long_embeds_tail
        long_lens long_samples ref_embeds ref_hidden ref_lens ref_mel short_embeds short_lens short_mel
        short_range stale_mel_after_#s_session stale_mel_fresh stale_range
    """,
    "audio_mel_stream": """
        buffer_after chunk_len chunk_sum_f# info info_columns mel_# mel_frames mel_max mel_mean mel_min mel_std
        need_samples sel units
    """,
    "audio_odd_chunks": """
        columns rows start_sample
    """,
    "t2w_prompt": """
        fbank_meansub_head fbank_meansub_tail fbank_raw_head fbank_shape flow_noise_head onnx_tokens_equal
        prompt_mel prompt_mel_len_before_pad prompt_token_len prompt_tokens s#_audio_len s#_mel_head
        s#_mel_shape s#_mel_sum_f# s#_mel_tail setup_conformer_att_cache_shape setup_conformer_att_cache_sum_f#
        setup_conformer_att_l#_cols setup_conformer_cnn setup_conformer_cnn_cache_shape
        setup_conformer_cnn_cache_sum_f# setup_est_att_s#_l#_cols setup_est_cnn_last setup_est_cnn_s#
        setup_estimator_att_cache_shape setup_estimator_att_cache_sum_f# setup_estimator_cnn_cache_shape
        setup_estimator_cnn_cache_sum_f# setup_mu spk_affine spk_emb
    """,
    "sampler_cases": """
        logits_#
    """,
}
"""Kinds of arrays (numbers in their names as ``#``) that tests compare; the other stages have tests that count them."""


@pytest.mark.parametrize("name", sorted(COMPARED))
def test_no_array_is_recorded_that_no_test_compares(name: str) -> None:
    if not (golden.folder() / "stages" / f"{name}.npz").exists():
        assert name.startswith("vision")
        golden.needs_eyes()
    kinds = {re.sub(r"\d+", "#", array) for array in golden.stage(name)}
    assert kinds <= set(COMPARED[name].split())
