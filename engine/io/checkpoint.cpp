#include "engine/io/checkpoint.h"

#include <algorithm>
#include <set>

#include "engine/io/model_folder.h"
#include "engine/io/names.h"
#include "engine/io/rotary_buffer.h"
#include "engine/io/shards.h"
#include "engine/io/vocab_map.h"
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
                       ", but the config asks for " + text_of(expected.shape) +
                       (*expected.keys == '\0' ? "" : std::string(": ") + expected.keys));
  }
  if (is_index_map(expected.name) == is_float(view.type)) {
    refuse(folder, "tensor '" + expected.name + "' is stored as " + name_of(view.type) + ", but " +
                       (is_index_map(expected.name) ? "a vocabulary map is integers"
                                                    : "weights are F64, F32, F16 or BF16"));
  }
  // One such weight makes every logit one, and the largest of those is no token.
  if (const std::int64_t at = first_not_finite(view); at >= 0) {
    refuse(folder, "tensor '" + expected.name + "' holds NaN or an infinity (its element " +
                       std::to_string(at) + "), with which no model computes");
  }
}

struct PassedOver {
  std::vector<std::string> buffers, empty;
};

// One remark for all of a kind: some models have a buffer a layer.
void remark_on(const fs::path& folder, const std::vector<std::string>& names, const char* one,
               const char* many, std::vector<std::string>& remarks) {
  if (names.empty()) {
    return;
  }
  const std::string first = folder.string() + ": tensor '" + names.front() + "'";
  remarks.push_back(names.size() == 1 ? first + " is " + one + "; it was passed over"
                                      : first + " and " + std::to_string(names.size() - 1) +
                                            " more are " + many + "; they were passed over");
}

// What the model's own names leave over: buffers, checked where they can be, and tensors without
// elements hold nothing that the model needs.
void pass_over(const fs::path& folder, const std::string& name, const TensorView& view,
               const RotaryBase& rotary, PassedOver& passed) {
  if (is_rotary_frequencies(name)) {
    if (const std::string reason = frequencies_error(name, view, rotary); !reason.empty()) {
      refuse(folder, reason);
    }
  } else if (is_buffer(name, view) || view.count() == 0) {
    (view.count() == 0 ? passed.empty : passed.buffers).push_back(name);
  } else {
    refuse(folder, "tensor '" + name + "' is not part of this kind of model" +
                       (name.ends_with(".bias") ? ", whose biases are other ones or none" : ""));
  }
}

// The stored tensors under their canonical names; each stored name is used exactly once.
WeightTable canonical(const fs::path& folder, WeightFiles files,
                      const std::vector<ExpectedTensor>& expected, const RotaryBase& rotary,
                      std::vector<std::string>& remarks) {
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
  remarks = std::move(files.remarks);
  PassedOver passed;
  for (const auto& [name, view] : files.tensors) {
    if (used.count(name) == 0) {
      pass_over(folder, name, view, rotary, passed);
    }
  }
  remark_on(folder, passed.buffers, "a buffer, which is computed anew",
            "buffers, which are computed anew", remarks);
  remark_on(folder, passed.empty, "empty", "empty", remarks);
  return WeightTable(std::move(files.files), std::move(table));
}

// Of a tied pair either may be stored, as writers that keep one name of shared memory do, or both,
// which must then be the same, byte for byte. Without a tie both must be there.
void resolve_head(const fs::path& folder, const LlmShape& shape, const std::string& embedding,
                  WeightFiles& files) {
  const auto head = files.tensors.find("lm_head.weight");
  if (!shape.tied_embeddings) {
    if (head == files.tensors.end()) {
      refuse(folder, "tensor 'lm_head.weight' is missing, and tie_word_embeddings is not true");
    }
    return;
  }
  if (head == files.tensors.end()) {
    return;
  }
  const auto [tied, alone] = files.tensors.emplace(embedding, head->second);
  if (!alone && (tied->second.type != head->second.type ||
                 !std::ranges::equal(tied->second.bytes, head->second.bytes))) {
    refuse(folder, "tie_word_embeddings is true, but tensor 'lm_head.weight' is not the embedding");
  }
  files.tensors.erase(head);
}

// d2t, checked against t2d where it is stored. Empty: the vocabularies are the same.
std::vector<std::int64_t> vocab_map(const fs::path& folder, const WeightTable& weights,
                                    std::int64_t target_vocab, std::vector<std::string>& remarks) {
  VocabMap map;
  if (weights.has("d2t")) {
    map.d2t = weights.values<std::int64_t>("d2t");
  }
  if (weights.has("t2d")) {
    map.t2d = weights.values<std::int64_t>("t2d");
  }
  if (const std::string reason = vocab_map_error(map, target_vocab); !reason.empty()) {
    refuse(folder, reason);
  }
  if (!map.d2t.empty() && !map.t2d) {
    remarks.push_back(folder.string() +
                      ": d2t stands without t2d, so nothing confirms that its offsets are right");
  }
  return map.d2t;
}

void check_map_is_there(const fs::path& folder, const DraftConfig& config, const WeightFiles& files,
                        const LlmShape& target) {
  if (config.has_vocab_map && files.tensors.count("d2t") == 0 &&
      files.tensors.count("model.d2t") == 0) {
    refuse(folder, "tensor 'd2t' is missing: draft_vocab_size " +
                       std::to_string(config.shape.vocab) + " is less than the target's " +
                       std::to_string(target.vocab) +
                       ", and the offsets alone say which token a draft id means");
  }
}

Checkpoint load(const fs::path& folder, const TargetConfig& config) {
  WeightFiles files = read_weights(folder);
  const std::vector<ExpectedTensor> expected = expected_target(config);
  resolve_head(folder, config.shape, expected.front().spellings.front(), files);
  Checkpoint checkpoint{.shape = config.shape,
                        .semantics = config.semantics,
                        .special = config.special,
                        .weights = {},
                        .remarks = {}};
  checkpoint.weights = canonical(
      folder, std::move(files), expected,
      {config.shape.rope_theta, config.shape.head_dim, config.shape.rope}, checkpoint.remarks);
  return checkpoint;
}

}  // namespace

const TensorView& WeightTable::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  VERSIEVE_ASSERT(found != tensors_.end(), "a weight is asked for by its canonical name");
  return found->second;
}

StorageType WeightTable::main_type() const {
  std::map<StorageType, std::int64_t> elements;
  for (const auto& [name, view] : tensors_) {
    elements[view.type] += is_float(view.type) ? view.count() : 0;
  }
  VERSIEVE_ASSERT(!elements.empty(), "a checkpoint holds weights");
  return std::max_element(elements.begin(), elements.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

std::string layer_name(std::int64_t layer, const std::string& rest) {
  return "model.layers." + std::to_string(layer) + "." + rest;
}

Checkpoint load_target(const fs::path& folder) {
  require_model_folder(folder);
  return load(folder, read_target_config(folder));
}

Checkpoint load_draft_model(const fs::path& folder, const LlmShape& target) {
  require_model_folder(folder, "a draft's");
  read_draft_model(folder, target);
  return load(folder, read_target_config(folder, target.max_position));
}

DraftCheckpoint load_draft(const fs::path& folder, const LlmShape& target) {
  require_model_folder(folder, "a draft's");
  const DraftConfig config = read_draft_config(folder, target);
  WeightFiles files = read_weights(folder);
  check_map_is_there(folder, config, files, target);
  DraftCheckpoint draft{.shape = config.shape, .weights = {}, .d2t = {}, .remarks = {}};
  draft.weights =
      canonical(folder, std::move(files), expected_draft(config, target),
                {config.shape.rope_theta, config.shape.head_dim, config.shape.rope}, draft.remarks);
  draft.d2t = vocab_map(folder, draft.weights, target.vocab, draft.remarks);
  return draft;
}

}  // namespace versieve::engine
