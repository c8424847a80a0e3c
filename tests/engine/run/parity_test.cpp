// Does the engine compute what the independent reference of the demo pair computed (float64 on the
// same bf16 weights)? The files' tensors are listed in engine/demo/README.md.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "engine/io/safetensors.h"
#include "engine/run/model/load.h"
#include "engine/run/speculate/generate.h"
#include "tests/support/paths.h"

namespace versieve::engine {
namespace {

// Relative norm of the difference that float sums of these lengths stay under.
constexpr double kBound = 1e-4;

std::filesystem::path demo_folder() {
  const char* other = std::getenv("VERSIEVE_PARITY_FOLDER");
  return other != nullptr ? std::filesystem::path(other)
                          : std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo";
}

std::vector<std::filesystem::path> parity_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(demo_folder() / "parity")) {
    if (entry.path().filename().string().rfind("nsa-", 0) == 0) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

struct Reference {
  explicit Reference(const std::filesystem::path& path) : file(SafetensorsFile::read(path)) {}

  template <class E>
  std::vector<E> values(const std::string& name) const {
    const TensorView* view = file.find(name);
    REQUIRE(view != nullptr);
    return values_as<E>(*view, name);
  }

  SafetensorsFile file;
};

template <class T>
struct Pair {
  Pair()
      : target_files(load_target(demo_folder() / "nsa")),
        draft_files(load_draft(demo_folder() / "nsa" / "draft", target_files.shape)),
        ops(kernels::make_cpu_ops<T>(2)),
        target(make_target<T>(*ops, target_files, &draft_files)),
        draft(make_draft<T>(*ops, draft_files, target)) {}

  std::vector<double> download(const T* data, std::int64_t count) const {
    std::vector<T> values(static_cast<std::size_t>(count));
    ops->download(values.data(), data, values.size() * sizeof(T));
    return {values.begin(), values.end()};
  }

  Checkpoint target_files;
  DraftCheckpoint draft_files;
  std::unique_ptr<kernels::Ops<T>> ops;
  Target<T> target;
  Draft<T> draft;
};

double relative_norm(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

// What a teacher-forced pass in chunks leaves behind, in the layout of the files.
template <class T>
struct Pass {
  std::vector<std::int32_t> greedy;                // [T]
  std::vector<double> logits;                      // [T, V]
  std::vector<double> captured;                    // [T, 3 * hidden]
  std::vector<double> last_hidden;                 // [chunk, hidden]: leaving the last layer
  std::vector<std::vector<std::int32_t>> indices;  // of layers 0 and last: [T, G, n]
};

template <class T>
Pass<T> run_text(Pair<T>& pair, const std::vector<std::int32_t>& tokens) {
  constexpr std::int64_t kChunk = 200;
  const LlmShape& shape = pair.target.shape();
  Pass<T> pass;
  pass.indices.resize(2);
  pair.target.cache().truncate(0);
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(tokens.size()); at += kChunk) {
    const std::int64_t end =
        std::min<std::int64_t>(at + kChunk, static_cast<std::int64_t>(tokens.size()));
    pair.target.verify(chain_tree({tokens.begin() + at, tokens.begin() + end}), {});
    const std::vector<double> logits =
        pair.download(pair.target.logits(), (end - at) * shape.vocab);
    for (std::int64_t row = 0; row < end - at; ++row) {
      const auto first = logits.begin() + row * shape.vocab;
      pass.greedy.push_back(
          static_cast<std::int32_t>(std::max_element(first, first + shape.vocab) - first));
    }
    pass.logits.insert(pass.logits.end(), logits.begin(), logits.end());
    const std::vector<double> captured =
        pair.download(pair.target.captured(), (end - at) * 3 * shape.hidden);
    pass.captured.insert(pass.captured.end(), captured.begin(), captured.end());
    const std::vector<T> hidden = pair.target.hidden_states();
    pass.last_hidden.assign(hidden.begin(), hidden.end());
    const std::int64_t sampled_layers[2] = {0, shape.layers - 1};
    for (std::size_t i = 0; i < 2; ++i) {
      const std::vector<std::int32_t> blocks = pair.target.selected_blocks(sampled_layers[i]);
      pass.indices[i].insert(pass.indices[i].end(), blocks.begin(), blocks.end());
    }
    std::vector<std::int32_t> path(static_cast<std::size_t>(end - at));
    std::iota(path.begin(), path.end(), 0);
    pair.target.commit(path);
  }
  return pass;
}

std::vector<double> tail(const std::vector<double>& values, std::size_t count) {
  return {values.end() - static_cast<std::ptrdiff_t>(count), values.end()};
}

// A row may differ from the reference only where the importance of the last chosen block and that
// of the first one left out are equal up to rounding.
template <class T>
void check_indices(const Pass<T>& pass, const Reference& reference, const LlmShape& shape) {
  const std::vector<std::int32_t> expected = reference.values<std::int32_t>("indices");
  const std::vector<float> margin = reference.values<float>("selection_margin");
  const std::size_t n = static_cast<std::size_t>(shape.nsa.sel_count);
  const std::size_t rows = expected.size() / n / 2;  // of one layer: [16, G]
  std::size_t compared = 0;
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const auto got = pass.indices[layer].end() - static_cast<std::ptrdiff_t>(rows * n);
    for (std::size_t row = 0; row < rows; ++row) {
      const auto first = expected.begin() + static_cast<std::ptrdiff_t>((layer * rows + row) * n);
      if (std::abs(margin[layer * rows + row]) > 1e-5F) {
        ++compared;
        CHECK(std::equal(first, first + static_cast<std::ptrdiff_t>(n),
                         got + static_cast<std::ptrdiff_t>(row * n)));
      }
    }
  }
  CHECK(compared > 0);
}

template <class T>
void check_target(const Pair<T>& pair, const Pass<T>& pass, const Reference& reference) {
  const LlmShape& shape = pair.target.shape();
  const std::size_t hidden = static_cast<std::size_t>(shape.hidden);
  const std::vector<double> logits = reference.values<double>("logits");
  CHECK(relative_norm(tail(pass.logits, logits.size()), logits) < kBound);
  const std::vector<double> layers = reference.values<double>("hidden_layers");
  CHECK(relative_norm(tail(pass.last_hidden, 4 * hidden), tail(layers, 4 * hidden)) < kBound);
  const std::vector<double> captured = tail(pass.captured, 4 * 3 * hidden);
  for (std::size_t slot = 0; slot < 3; ++slot) {
    std::vector<double> got;
    for (std::size_t row = 0; row < 4; ++row) {
      const auto first = captured.begin() + static_cast<std::ptrdiff_t>((row * 3 + slot) * hidden);
      got.insert(got.end(), first, first + static_cast<std::ptrdiff_t>(hidden));
    }
    const std::size_t layer = static_cast<std::size_t>(pair.draft.shape().capture_layers[slot]);
    const auto first = layers.begin() + static_cast<std::ptrdiff_t>(layer * 4 * hidden);
    CHECK(relative_norm(got, {first, first + static_cast<std::ptrdiff_t>(4 * hidden)}) < kBound);
  }
  check_indices(pass, reference, shape);
  CHECK(pass.greedy == reference.values<std::int32_t>("greedy"));
}

// Entries with true features: logits and outputs of the newest 8.
template <class T>
void check_entries(Pair<T>& pair, const Pass<T>& pass, const Reference& reference,
                   const std::vector<std::int32_t>& tokens) {
  const std::int32_t count = static_cast<std::int32_t>(tokens.size());
  const kernels::OpsBuffer<T> captured(*pair.ops,
                                       std::vector<T>(pass.captured.begin(), pass.captured.end()));
  std::vector<double> logits;
  std::vector<double> features;
  pair.draft.set_length(1);
  for (std::int32_t p = 1; p < count; ++p) {
    const bool compared = p >= count - 8;
    pair.draft.extend(p, std::vector<std::int32_t>{tokens[static_cast<std::size_t>(p)]},
                      captured.data(), std::vector<std::int32_t>{p - 1}, compared);
    if (compared) {
      const std::vector<double> row = pair.download(pair.draft.logits(), pair.draft.shape().vocab);
      logits.insert(logits.end(), row.begin(), row.end());
      const std::vector<T> feature = pair.draft.newest_feature();
      features.insert(features.end(), feature.begin(), feature.end());
    }
  }
  CHECK(relative_norm(logits, reference.values<double>("draft_logits")) < kBound);
  CHECK(relative_norm(features, reference.values<double>("draft_feature")) < kBound);
}

// The greedy chain on the draft's own outputs. REQUIRES: check_entries just ran.
template <class T>
void check_chain(Pair<T>& pair, const Reference& reference, std::int32_t root_position) {
  const std::vector<std::int32_t> chain = reference.values<std::int32_t>("draft_chain_tokens");
  std::vector<double> logits = pair.download(pair.draft.logits(), pair.draft.shape().vocab);
  for (std::int32_t i = 0; i + 1 < static_cast<std::int32_t>(chain.size()); ++i) {
    pair.draft.step({.token = {chain[static_cast<std::size_t>(i)]},
                     .position = {root_position + 1 + i},
                     .parent = {i - 1}});
    const std::vector<double> row = pair.download(pair.draft.logits(), pair.draft.shape().vocab);
    logits.insert(logits.end(), row.begin(), row.end());
  }
  CHECK(relative_norm(logits, reference.values<double>("draft_chain_logits")) < kBound);
}

template <class T>
void check_file(Pair<T>& pair, const std::filesystem::path& path) {
  INFO(path.string());
  const Reference reference(path);
  const std::vector<std::int32_t> tokens = reference.values<std::int32_t>("tokens");
  const Pass<T> pass = run_text(pair, tokens);
  check_target(pair, pass, reference);
  check_entries(pair, pass, reference, tokens);
  check_chain(pair, reference, static_cast<std::int32_t>(tokens.size()) - 1);
}

TEST_CASE("target and draft agree with the reference in f32") {
  Pair<float> pair;
  REQUIRE(!parity_files().empty());
  for (const std::filesystem::path& path : parity_files()) {
    check_file(pair, path);
  }
}

TEST_CASE("target and draft agree with the reference in f64") {
  Pair<double> pair;
  check_file(pair, parity_files().front());
}

}  // namespace
}  // namespace versieve::engine
