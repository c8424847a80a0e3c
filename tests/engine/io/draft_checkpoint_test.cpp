// A draft's tensors: both names of its layer, its embedding, its map, what is refused.
#include <catch2/catch.hpp>

#include "tests/engine/io/checkpoint_case.h"

using namespace versieve;
using namespace versieve::engine;
using namespace versieve::test;

TEST_CASE("a draft loads under both names of its layer, with or without its own embedding") {
  const TempFolder folder;
  const TinyModel model;
  write_tiny_draft(folder.path(), model);
  const TensorSet canonical = tiny_draft_weights(model);
  DraftCheckpoint draft = load_draft(folder.path(), model.target);
  CHECK(draft.shape.window == 32);
  CHECK(draft.d2t.empty());
  check_same_weights(draft.weights, canonical);
  TensorSet set = canonical;
  rename(set, "midlayer.", "layers.0.");
  set.tensors["embed_tokens.weight"] = tensor_of(std::vector<float>(272 * 32), {272, 32});
  write_safetensors(folder / "model.safetensors", set);
  draft = load_draft(folder.path(), model.target);
  CHECK(draft.weights.has("midlayer.hidden_norm.weight"));
  CHECK(draft.weights.has("embed_tokens.weight"));
  set = canonical;
  rename(set, "", "model.");
  write_safetensors(folder / "model.safetensors", set);
  check_same_weights(load_draft(folder.path(), model.target).weights, canonical);
}

TEST_CASE("a draft model of fewer positions than the target's is read") {
  const TempFolder folder;
  TinyModel model;
  model.target.attention = AttentionKind::kDense;
  write_tiny_target(folder.path(), model);
  LlmShape target = model.target;
  target.max_position = 8192;
  CHECK(load_draft_model(folder.path(), target).shape.max_position == 4096);
  target.vocab = 300;
  const Error error = error_of([&] { load_draft_model(folder.path(), target); });
  CHECK(contains(error.what(), "vocab_size must be the target's, 300"));
}

TEST_CASE("a draft with a smaller vocabulary needs a right map") {
  const TempFolder folder;
  TinyModel model;
  model.draft.vocab = 100;
  write_tiny_draft(folder.path(), model);
  const DraftCheckpoint draft = load_draft(folder.path(), model.target);
  REQUIRE(draft.d2t.size() == 100);
  CHECK(draft.d2t[99] == 99);  // 99 -> 198
  TensorSet set = tiny_draft_weights(model);
  for (const char* name : {"d2t", "t2d"}) {  // as the other tensors, behind the model
    set.tensors[std::string("model.") + name] = set.tensors[name];
    set.tensors.erase(name);
  }
  write_safetensors(folder / "model.safetensors", set);
  CHECK(load_draft(folder.path(), model.target).d2t == draft.d2t);
  set = tiny_draft_weights(model);
  set.tensors["t2d"].bytes[1] = std::byte{1};
  write_safetensors(folder / "model.safetensors", set);
  CHECK(contains(draft_refusal(folder.path(), model.target), "name different tokens"));
  std::vector<std::int64_t> offsets(100, 0);
  offsets[99] = 173;
  set.tensors["d2t"] = tensor_of(offsets, {100});
  write_safetensors(folder / "model.safetensors", set);
  CHECK(contains(draft_refusal(folder.path(), model.target), "out of the vocabulary"));
  set.tensors.erase("d2t");
  write_safetensors(folder / "model.safetensors", set);
  CHECK(contains(draft_refusal(folder.path(), model.target),
                 "'d2t' is missing: draft_vocab_size 100 is less than the target's 272"));
  set = tiny_draft_weights(model);
  set.tensors.erase("t2d");
  write_safetensors(folder / "model.safetensors", set);
  CHECK(contains(draft_refusal(folder.path(), model.target), "d2t counts 0, 1, 2"));
  offsets.assign(100, 30);
  set.tensors["d2t"] = tensor_of(offsets, {100});
  write_safetensors(folder / "model.safetensors", set);
  const DraftCheckpoint half = load_draft(folder.path(), model.target);
  CHECK(half.d2t == offsets);
  REQUIRE(half.remarks.size() == 1);
  CHECK(contains(half.remarks[0], "d2t stands without t2d"));
  set.tensors["d2t"] = tensor_of(std::vector<float>(100, 30.0f), {100});
  write_safetensors(folder / "model.safetensors", set);
  CHECK(contains(draft_refusal(folder.path(), model.target), "a vocabulary map is integers"));
  set.tensors["d2t"] = tensor_of(std::vector<std::int64_t>(272, 0), {272});
  write_safetensors(folder / "model.safetensors", set);
  CHECK(contains(draft_refusal(folder.path(), model.target),
                 "'d2t' has the shape [272], but the config asks for [100]: draft_vocab_size"));
}

TEST_CASE("unknown and missing draft tensors are refused by name") {
  const TempFolder folder;
  const TinyModel model;
  write_tiny_draft(folder.path(), model);
  TensorSet set = tiny_draft_weights(model);
  set.tensors.erase("midlayer.hidden_norm.weight");
  write_safetensors(folder / "model.safetensors", set);
  CHECK(contains(draft_refusal(folder.path(), model.target), "hidden_norm.weight' is missing"));
  set = tiny_draft_weights(model);
  set.tensors["fc_norm.weight"] = tensor_of(std::vector<float>(32), {32});
  write_safetensors(folder / "model.safetensors", set);
  CHECK(contains(draft_refusal(folder.path(), model.target), "'fc_norm.weight' is not part of"));
}
