#include "engine/run/specattn/align_request.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/io/formatted.h"
#include "engine/run/model/compute_device.h"
#include "engine/run/specattn/dense_pair.h"
#include "engine/run/specattn/similarity.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

// The pairs that may be taken; the others are forbidden.
std::vector<double> allowed(std::vector<double> similarity, std::int64_t n,
                            const AlignRequest& request) {
  for (std::int64_t i = 0; i < request.dense_draft_layers; ++i) {
    for (std::int64_t j = std::min(n, request.dense_layers); j < n; ++j) {
      similarity[static_cast<std::size_t>(i * n + j)] = -std::numeric_limits<double>::infinity();
    }
  }
  return similarity;
}

template <class T>
LayerMap map_of(kernels::Ops<T>& ops, const std::vector<double>& similarity, std::int64_t m,
                std::int64_t n, const AlignRequest& request) {
  kernels::OpsBuffer<T, double> table(ops, allowed(similarity, n, request));
  kernels::OpsBuffer<T, std::int32_t> map(ops, n);
  kernels::OpsBuffer<T, double> score(ops, 1);
  ops.layer_map({.draft_layers = m,
                 .verifier_layers = n,
                 .similarity = table.data(),
                 .map = map.data(),
                 .score = score.data()});
  LayerMap result{.draft_layer = map.read(), .score = score.read()[0], .similarity = {}};
  for (std::int64_t i = 0; i < m; ++i) {
    result.similarity.emplace_back(similarity.begin() + i * n, similarity.begin() + (i + 1) * n);
  }
  return result;
}

template <class T>
AlignReport align_on(const AlignRequest& request, const ComputeDevice& device,
                     std::unique_ptr<kernels::Ops<T>> ops) {
  DensePair<T> pair(*ops, request.model);
  if (request.dense_draft_layers >= pair.draft.shape().layers) {
    throw Error(ExitCode::kAnswerNo, "leaving out " + std::to_string(request.dense_draft_layers) +
                                         " draft layers leaves none of its " +
                                         std::to_string(pair.draft.shape().layers));
  }
  AttentionSimilarity<T> similarity(*ops, pair.draft, pair.target);
  AlignReport report{.model = pair.target.shape().name,
                     .backend = name_of(device.backend),
                     .device = device.name,
                     .dtype = request.dtype,
                     .stride = request.stride,
                     .first = request.first,
                     .dense_layers = request.dense_layers,
                     .dense_draft_layers = request.dense_draft_layers};
  report.remarks = pair.remarks;
  for (const std::filesystem::path& path : request.texts) {
    similarity.add(pair.read_text(path), request.stride, request.first);
    report.texts.push_back(path.filename().string());
  }
  report.positions = similarity.positions();
  if (report.positions == 0) {
    throw Error(ExitCode::kAnswerNo,
                "no text reaches the first compared position, " + std::to_string(request.first));
  }
  report.map = map_of(*ops, similarity.similarity(), pair.draft.shape().layers,
                      pair.target.shape().layers, request);
  return report;
}

}  // namespace

AlignReport run_alignment(const AlignRequest& request) {
  if (request.texts.empty()) {
    throw Error(ExitCode::kUsage, "align needs a text: --text FILE, once or more");
  }
  if (request.stride < 1 || request.first < 0 || request.dense_layers < 0 ||
      request.dense_draft_layers < 0) {
    throw Error(ExitCode::kUsage, "the stride is 1 or more, positions and layers are 0 or more");
  }
  const ComputeDevice device = compute_device(request.backend, request.threads);
  return with_ops(device, request.dtype, [&]<class T>(std::unique_ptr<kernels::Ops<T>> ops) {
    return align_on<T>(request, device, std::move(ops));
  });
}

nlohmann::ordered_json alignment_json(const AlignReport& report) {
  return {{"format", "versieve layer map"},
          {"schema", kLayerMapSchema},
          {"model", report.model},
          {"backend", report.backend},
          {"device", report.device},
          {"dtype", report.dtype},
          {"texts", report.texts},
          {"stride", report.stride},
          {"first", report.first},
          {"positions", report.positions},
          {"dense_layers", report.dense_layers},
          {"dense_draft_layers", report.dense_draft_layers},
          {"unit", "nats"},
          {"map", report.map.draft_layer},
          {"score", report.map.score},
          {"similarity", report.map.similarity}};
}

std::string alignment_text(const AlignReport& report) {
  std::string text = "-KL(target layer || draft layer), mean over " +
                     std::to_string(report.positions) + " positions; * is the map's\ntarget layer";
  const std::size_t layers = report.map.draft_layer.size();
  for (std::size_t j = 0; j < layers; ++j) {
    text += formatted("%9zu ", j);
  }
  for (std::size_t i = 0; i < report.map.similarity.size(); ++i) {
    text += formatted("\ndraft %-6zu", i);
    for (std::size_t j = 0; j < layers; ++j) {
      const bool taken = report.map.draft_layer[j] == static_cast<std::int32_t>(i);
      text += formatted("%9.3f%c", report.map.similarity[i][j], taken ? '*' : ' ');
    }
  }
  return text + formatted("\nscore %.3f\n", report.map.score);
}

}  // namespace versieve::engine
