// Random tiny checkpoints in the format of engine/demo: the same seed gives the same bytes.
#pragma once

#include <cstdint>
#include <filesystem>

#include "engine/io/safetensors.h"
#include "model/words/llm_shape.h"

namespace versieve::test {

struct TinyModel {
  std::uint64_t seed = 1;
  // A dense target has attention = kDense.
  LlmShape target{.attention = AttentionKind::kNsa,
                  .layers = 3,
                  .hidden = 32,
                  .intermediate = 48,
                  .vocab = 272,
                  .num_heads = 4,
                  .num_kv_heads = 2,
                  .head_dim = 16,
                  .max_position = 4096,
                  .rope_theta = 10000.0,
                  .norm_eps = 1e-5,
                  .tied_embeddings = true,
                  .nsa = {.cmp_block = 8,
                          .cmp_stride = 4,
                          .sel_block = 16,
                          .sel_count = 5,
                          .init_blocks = 1,
                          .local_blocks = 2,
                          .window = 24}};
  DraftShape draft{.hidden = 32,
                   .intermediate = 40,
                   .vocab = 272,  // smaller than the target's: d2t and t2d are written
                   .num_heads = 2,
                   .num_kv_heads = 1,
                   .head_dim = 16,
                   .window = 32,
                   .capture_layers = {1, 2, 3}};
  engine::StorageType storage = engine::StorageType::kBf16;  // kBf16, kF32 or kF64
  int shards = 1;                                            // of the target
  // What the target's queries are multiplied with: from about 8 on some dozen of a thousand tokens
  // have nearly all of the attention.
  double sharpness = 1.0;
};

// The weights alone, under the names of the format.
engine::TensorSet tiny_target_weights(const TinyModel& model);
engine::TensorSet tiny_draft_weights(const TinyModel& model);

// config.json, tokenizer.json and weights into `folder`, which is created.
void write_tiny_target(const std::filesystem::path& folder, const TinyModel& model);
// config.json and weights of the draft into `folder`, usually <target>/draft.
void write_tiny_draft(const std::filesystem::path& folder, const TinyModel& model);
// Target in `folder`, draft in folder/draft.
void write_tiny_pair(const std::filesystem::path& folder, const TinyModel& model);

// A dense target in `folder` and a dense draft in folder/draft that is right now and then: the
// target's first layers, last norm and head. REQUIRES: a dense target, draft_layers < its layers.
void write_tiny_dense_pair(const std::filesystem::path& folder, const TinyModel& model,
                           std::int64_t draft_layers);

}  // namespace versieve::test
