#include "engine/io/checkpoint.h"

#include <algorithm>
#include <set>

#include "engine/io/names.h"
#include "engine/io/shards.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& folder, const std::string& what) {
  throw Error(ExitCode::kBadInput, folder.string() + ": " + what);
}

bool is_float(StorageType type) {
  return type == StorageType::kF64 || type == StorageType::kF32 || type == StorageType::kF16 ||
         type == StorageType::kBf16;
}

// Integer tensors among the expected ones.
bool is_index_map(const std::string& name) {
  return name == "d2t" || name == "t2d";
}

void check_tensor(const fs::path& folder, const ExpectedTensor& expected, const TensorView& view) {
  if (view.shape != expected.shape) {
    refuse(folder, "tensor '" + expected.name + "' has the shape " + text_of(view.shape) +
                       ", but the config asks for " + text_of(expected.shape));
  }
  if (!is_index_map(expected.name) && !is_float(view.type)) {
    refuse(folder, "tensor '" + expected.name + "' is stored as " + name_of(view.type) +
                       ", but weights are F64, F32, F16 or BF16");
  }
}

// The stored tensors under their canonical names; each stored name is used exactly once.
WeightTable canonical(const fs::path& folder, WeightFiles files,
                      const std::vector<ExpectedTensor>& expected) {
  std::map<std::string, TensorView> table;
  std::set<std::string> used;
  for (const ExpectedTensor& tensor : expected) {
    for (const std::string& spelling : tensor.spellings) {
      const auto found = files.tensors.find(spelling);
      if (found != files.tensors.end() && table.count(tensor.name) == 0) {
        check_tensor(folder, tensor, found->second);
        table[tensor.name] = found->second;
        used.insert(spelling);
      }
    }
    if (tensor.required && table.count(tensor.name) == 0) {
      refuse(folder, "tensor '" + tensor.spellings.front() + "' is missing");
    }
  }
  for (const auto& [name, view] : files.tensors) {
    if (used.count(name) == 0) {
      refuse(folder, "tensor '" + name + "' is not part of this kind of model");
    }
  }
  return WeightTable(std::move(files.files), std::move(table));
}

// A tied head may be stored all the same; it must then be the embedding, byte for byte.
void drop_tied_head(const fs::path& folder, const LlmShape& shape, const std::string& embedding,
                    WeightFiles& files) {
  const auto head = files.tensors.find("lm_head.weight");
  if (!shape.tied_embeddings || head == files.tensors.end()) {
    return;
  }
  const auto tied = files.tensors.find(embedding);
  if (tied == files.tensors.end() || tied->second.type != head->second.type ||
      !std::ranges::equal(tied->second.bytes, head->second.bytes)) {
    refuse(folder, "tie_word_embeddings is true, but tensor 'lm_head.weight' is not the embedding");
  }
  files.tensors.erase(head);
}

// d2t [draft vocabulary]: offsets that lead into the target's vocabulary.
std::vector<std::int64_t> vocab_map(const fs::path& folder, const WeightTable& weights,
                                    std::int64_t target_vocab) {
  if (!weights.has("d2t")) {
    return {};
  }
  std::vector<std::int64_t> d2t = weights.values<std::int64_t>("d2t");
  for (std::size_t id = 0; id < d2t.size(); ++id) {
    const std::int64_t offset = d2t[id];
    const std::int64_t draft_id = static_cast<std::int64_t>(id);
    if (offset < -draft_id || offset >= target_vocab - draft_id) {
      refuse(folder, "d2t leads draft id " + std::to_string(id) + " out of the vocabulary");
    }
  }
  return d2t;
}

// t2d must mark exactly the targets of d2t.
void check_inverse(const fs::path& folder, const WeightTable& weights,
                   const std::vector<std::int64_t>& d2t) {
  if (!weights.has("t2d")) {
    return;
  }
  if (d2t.empty()) {
    refuse(folder, "tensor 't2d' stands without 'd2t'");
  }
  const std::vector<std::int64_t> t2d = weights.values<std::int64_t>("t2d");
  std::vector<std::int64_t> marked(t2d.size(), 0);
  for (std::size_t id = 0; id < d2t.size(); ++id) {
    marked[static_cast<std::size_t>(static_cast<std::int64_t>(id) + d2t[id])] = 1;
  }
  if (marked != t2d) {
    refuse(folder, "t2d and d2t name different tokens");
  }
}

}  // namespace

const TensorView& WeightTable::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  VERSIEVE_ASSERT(found != tensors_.end(), "a weight is asked for by its canonical name");
  return found->second;
}

std::string layer_name(std::int64_t layer, const std::string& rest) {
  return "model.layers." + std::to_string(layer) + "." + rest;
}

Checkpoint load_target(const fs::path& folder) {
  if (!fs::is_directory(folder)) {
    refuse(folder, "is not a model directory");
  }
  const TargetConfig config = read_target_config(folder);
  WeightFiles files = read_weights(folder);
  const std::vector<ExpectedTensor> expected = expected_target(config);
  drop_tied_head(folder, config.shape, expected.front().spellings.front(), files);
  return {.shape = config.shape,
          .semantics = config.semantics,
          .special = config.special,
          .weights = canonical(folder, std::move(files), expected)};
}

Checkpoint load_draft_model(const fs::path& folder, const LlmShape& target) {
  Checkpoint draft = load_target(folder);
  if (draft.shape.attention != AttentionKind::kDense) {
    refuse(folder, "a draft model is dense");
  }
  if (draft.shape.vocab != target.vocab) {
    refuse(folder, "vocab_size must be the target's, " + std::to_string(target.vocab));
  }
  if (draft.shape.max_position < target.max_position) {
    refuse(folder, "max_position_embeddings must reach the target's, " +
                       std::to_string(target.max_position));
  }
  return draft;
}

DraftCheckpoint load_draft(const fs::path& folder, const LlmShape& target) {
  if (!fs::is_directory(folder)) {
    refuse(folder, "is not a draft's model directory");
  }
  const DraftConfig config = read_draft_config(folder, target);
  DraftCheckpoint draft{
      .shape = config.shape,
      .weights = canonical(folder, read_weights(folder), expected_draft(config, target)),
      .d2t = {}};
  draft.d2t = vocab_map(folder, draft.weights, target.vocab);
  check_inverse(folder, draft.weights, draft.d2t);
  return draft;
}

}  // namespace versieve::engine
