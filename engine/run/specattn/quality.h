// What does reading fewer tokens cost? Walks along true texts as speculative decoding would: the
// draft runs over a block of true tokens, its attention chooses, the target verifies the block with
// what was chosen and keeps the keys it computed that way, so that errors add up. Streaming and
// page selection read as many tokens of each layer, block by block, as SpecAttn did.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "kernels/top_p/params.h"

namespace versieve::engine {

struct QualityRequest {
  std::filesystem::path model;               // dense target, dense draft/, layer_map.json
  std::vector<std::filesystem::path> texts;  // held-out; grouped by their name up to the first '-'
  std::vector<double> shares = {0.9, 0.95, 0.97, 0.99};  // p
  std::int64_t lookahead = 7;                            // gamma: drafted tokens a step
  std::int64_t scored = 512;                             // last tokens of each text that are scored
  std::int64_t chunk = 16;
  std::int64_t iterations = kernels::kTopPHalvings;
  std::int64_t dense_layers = 2;
  bool per_token = false;  // Quest too: pages chosen anew for each token, not for each verify
  std::int64_t curve = 8;  // points of each method's perplexity over the scored tokens; 0: none
  std::string backend = "auto";
  std::string dtype = "f32";
  int threads = 0;
  std::function<void(const std::string& text)> on_text;  // before each
};

// One way of reading, over the texts of one group or all.
struct QualityRow {
  std::string method;  // dense, specattn, streaming, pages, quest
  double p = 0.0;      // of the specattn run whose reads it matches; 0: dense
  std::int64_t tokens = 0;
  double loss = 0.0;           // nats a token
  double agreement = 0.0;      // share of places with the dense run's argmax
  double right = 0.0;          // share of places with the text's own token
  std::int64_t answers = 0;    // tokens that answer a question of the text ("=> ")
  double answers_right = 0.0;  // share of those
  double saved = 0.0;          // of the committed tokens' reads, all layers
  double saved_sparse = 0.0;   // of the layers that are not dense
  // Perplexity of the first tokens that are scored, of all texts together, at each of
  // QualityGroup::places.
  std::vector<double> perplexity;
};

struct QualityGroup {
  std::string name;  // or "all"
  std::vector<QualityRow> rows;
  std::vector<std::int64_t> places;  // scored tokens of a text, ascending; of the longest text
};

struct QualityReport {
  std::string model, backend, device, dtype;
  std::int64_t lookahead = 0, scored = 0, chunk = 0, iterations = 0, dense_layers = 0, texts = 0;
  std::vector<QualityGroup> groups;  // the last is all
  std::vector<std::string> remarks;  // what was odd in the models' files and did no harm
};

// Throws Error: kUsage for a contradictory request, kAnswerNo for a model without a dense draft,
// kBadInput for model, map or text files, kEnvironment without the GPU asked for.
QualityReport run_quality(const QualityRequest& request);

nlohmann::ordered_json quality_json(const QualityReport& report);
std::string quality_text(const QualityReport& report);

}  // namespace versieve::engine
