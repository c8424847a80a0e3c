// Choosing tokens: chunks, the methods it is compared with, similarity, and the file of the map.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <numeric>

#include "engine/io/layer_map_file.h"
#include "engine/run/specattn/other_choices.h"
#include "engine/run/specattn/similarity.h"
#include "engine/run/specattn/text_walk.h"
#include "engine/run/speculate/draft_choice.h"
#include "model/words/error.h"
#include "tests/engine/run/tiny_engine.h"
#include "tests/support/errors.h"
#include "tests/support/temp_folder.h"

namespace versieve::engine {
namespace {

using test::error_of;
using test::TempFolder;

Target<float> tiny_dense(kernels::Ops<float>& ops, std::uint64_t seed) {
  const LlmShape shape = tiny::shape(AttentionKind::kDense);
  return make_synthetic_target<float>(ops, shape, tiny::draft_shape(shape), seed);
}

TokenList read_list(const kernels::SelectedTokens& selected, std::int64_t lists = 1) {
  return {selected.token, selected.token + lists * selected.count};
}

}  // namespace

TEST_CASE("a draft's attention is cut to its share, layer by layer, united over its steps") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  // Two layers, two steps, L = 4; rows are 6 apart and carry weights of drafted tokens behind L.
  const std::vector<float> weights = {0.90F, 0.05F, 0.03F, 0.02F, 9, 9,  //
                                      0.10F, 0.10F, 0.10F, 0.70F, 9, 9,  //
                                      0.00F, 1.00F, 0.00F, 0.00F, 9, 9,  //
                                      0.25F, 0.25F, 0.25F, 0.25F, 9, 9};
  const DraftAttention<float> attention{
      .steps = 2, .context_len = 4, .stride = 6, .layer_stride = 12, .weights = weights.data()};
  const std::vector<TokenList> chosen =
      chosen_tokens(*ops, attention, 2, {.p = 0.6, .iterations = 10, .chunk = 1});
  REQUIRE(chosen.size() == 2);
  CHECK(chosen[0] == TokenList{0, 3});
  CHECK(chosen[1] == TokenList{0, 1, 2, 3});
}

TEST_CASE("the shipped count of halvings keeps what sorting would, and ten do not") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  // One loud token and a tail of 2^15 below a 2^11th of it, which falls by 4e-9 a token where the
  // last hundredth begins: 2^-24 of the loud one are 14 tokens.
  constexpr std::int64_t kLength = 1 << 15;
  std::vector<float> weights = {1.0F};
  for (std::int64_t i = 1; i < kLength; ++i) {
    weights.push_back(0x1p-11F * static_cast<float>(std::exp(-static_cast<double>(i) / 2048.0)));
  }
  const DraftAttention<float> attention{.steps = 1,
                                        .context_len = kLength,
                                        .stride = kLength,
                                        .layer_stride = kLength,
                                        .weights = weights.data()};
  double all = 0.0, mass = 0.0;
  for (const float w : weights) {
    all += static_cast<double>(w);
  }
  std::int64_t fewest = 0;  // weights fall, so the first ones are the sorted choice
  while (mass < 0.99 * all) {
    mass += static_cast<double>(weights[static_cast<std::size_t>(fewest++)]);
  }
  const auto kept = [&](const SpecAttnOptions& options) {
    return static_cast<std::int64_t>(chosen_tokens(*ops, attention, 1, options)[0].size());
  };
  CHECK(kept({.p = 0.99, .chunk = 1}) >= fewest);
  CHECK(kept({.p = 0.99, .chunk = 1}) <= fewest + 14);
  CHECK(kept({.p = 0.99, .iterations = 10, .chunk = 1}) == kLength);
}

TEST_CASE("a choice without the host gives the same lists, and counts what was read") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  const std::vector<float> weights = {9, 9, 9, 9, 9, 9,  // a layer that was not kept
                                      0, 5, 0, 0, 0, 1,  //
                                      1, 0, 0, 0, 0, 8};
  const DraftAttention<float> attention{.steps = 1,
                                        .context_len = 6,
                                        .stride = 6,
                                        .layer_stride = 6,
                                        .first_layer = 1,
                                        .weights = weights.data()};
  ChosenLists<float> lists;
  const SpecAttnOptions options{.p = 0.8, .chunk = 4};
  lists.choose(*ops, attention, 3, options);
  lists.choose(*ops, attention, 3, options);
  CHECK(lists.read(*ops) == std::vector<TokenList>{{}, {0, 1, 2, 3}, {4, 5}});
  CHECK(lists.totals() == std::vector<std::int64_t>{8, 4});
  const kernels::SelectedTokens second = lists.of_layer(2);
  CHECK(second.count == 6);
  CHECK(*second.known_count == 2);
  CHECK(second.token[1] == 5);
}

TEST_CASE("streaming reads the first tokens and the newest") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  StreamingSelector<float> streaming(*ops, 2);
  streaming.set_budget({-1, 5, 1, 99});
  CHECK(streaming.select({.layer = 0, .context_len = 10}).token == nullptr);
  CHECK(read_list(streaming.select({.layer = 1, .context_len = 10})) == TokenList{0, 1, 7, 8, 9});
  CHECK(read_list(streaming.select({.layer = 2, .context_len = 10})) == TokenList{0});
  CHECK(streaming.select({.layer = 3, .context_len = 3}).count == 3);
  CHECK(streaming.reads().read == 10 + 5 + 1 + 3);
  CHECK(streaming.reads().present == 33);
}

TEST_CASE("pages are read by the highest score their keys could have") {
  CHECK(page_bound({1, -2}, {-1, 0.5}, {3, 4}) == 3.0 - 1.0);
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  LlmShape shape;
  shape.num_heads = 2;
  shape.num_kv_heads = 2;
  shape.head_dim = 2;
  PageSelector<float> pages(*ops, shape, 2);
  pages.set_budget({3});
  const std::vector<float> q = {1, 0, 0,
                                -1};  // head 0 likes large first elements, head 1 small second ones
  std::vector<float> k;
  const float first[6] = {0, 1, 5, 0, 2, 2};
  const float second[6] = {0, 0, 7, 7, 1, -9};
  for (int i = 0; i < 6; ++i) {
    k.insert(k.end(), {first[i], 0, 0, second[i]});
  }
  const kernels::SelectedTokens got = pages.select({.layer = 0,
                                                    .num_queries = 1,
                                                    .num_kv_heads = 2,
                                                    .context_len = 6,
                                                    .q = q.data(),
                                                    .k = k.data()});
  CHECK(got.per_kv_head);
  CHECK(got.count == 3);
  // Head 0: pages 1 (bound 5), 2 (2), 0 (1): both tokens of page 1, one of page 2. Head 1: 2, 0, 1.
  CHECK(read_list(got, 2) == TokenList{2, 3, 4, 0, 4, 5});
  // The newest page first: page 2, then one token of head 0's page 1 and of head 1's page 0.
  PageSelector<float> newest(*ops, shape, 2, /*newest_first=*/true);
  newest.set_budget({3});
  CHECK(read_list(newest.select({.layer = 0,
                                 .num_queries = 1,
                                 .num_kv_heads = 2,
                                 .context_len = 6,
                                 .q = q.data(),
                                 .k = k.data()}),
                  2) == TokenList{2, 4, 5, 0, 4, 5});
}

TEST_CASE("the divergence of distributions, by hand") {
  const std::vector<double> a = {0.5, 0.5, 0.0};
  const std::vector<double> b = {0.25, 0.75, 0.0};
  CHECK(kl_divergence<double>(a, a) == 0.0);
  CHECK(kl_divergence<double>(a, b) == Approx(0.5 * std::log(2.0) + 0.5 * std::log(2.0 / 3.0)));
  const std::vector<double> none = {0.0, 1.0, 0.0};  // floored at 1e-12, not infinite
  CHECK(kl_divergence<double>(a, none) == Approx(0.5 * std::log(0.5e12) + 0.5 * std::log(0.5)));
}

TEST_CASE("a model is most alike itself, layer by layer") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  Target<float> one = tiny_dense(*ops, 11);
  Target<float> same = tiny_dense(*ops, 11);
  AttentionSimilarity<float> similarity(*ops, one, same);
  similarity.add(tiny::prompt(100), 8, 20);
  CHECK(similarity.positions() == 10);  // 23, 31, ... 95
  const std::vector<double> table = similarity.similarity();
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      if (i == j) {
        CHECK(std::abs(table[i * 3 + j]) < 1e-6);
      } else {
        CHECK(table[i * 3 + j] < -1e-3);
      }
    }
  }
}

TEST_CASE("a walk under a selection that chooses everything is the dense walk") {
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  Target<float> target = tiny_dense(*ops, 11);
  const std::vector<std::int32_t> text = tiny::prompt(60);
  target.verify(chain_tree({text.begin(), text.begin() + 40}), {});
  std::vector<std::int32_t> path(40);
  std::iota(path.begin(), path.end(), 0);
  target.commit(path);
  CHECK(block_starts(40, 8, 60) == std::vector<std::int64_t>{40, 48, 56});
  const WalkedText dense = walk_text<float>(*ops, target, text, 40, 8, [](std::size_t) {});
  REQUIRE(dense.loss.size() == 19);
  const auto walk_with = [&](std::int64_t tokens) {
    StreamingSelector<float> streaming(*ops, 2);
    streaming.set_budget({-1, tokens, tokens});
    target.set_token_selector(&streaming);
    const WalkedText walked = walk_text<float>(*ops, target, text, 40, 8, [](std::size_t) {});
    target.set_token_selector(nullptr);
    return walked;
  };
  CHECK(walk_with(1000).loss == dense.loss);
  CHECK(walk_with(8).loss != dense.loss);
}

TEST_CASE("the layer map's file is read strictly") {
  const TempFolder folder;
  const LlmShape shape = tiny::shape(AttentionKind::kDense);
  const auto write = [&](const std::string& text) {
    std::ofstream(folder / kLayerMapFile) << text;
  };
  const std::string head = R"({"format": "versieve layer map", "schema": 1, "map": )";
  CHECK(!has_layer_map(folder.path()));
  write(head + "[0, 0, 1]}");
  CHECK(has_layer_map(folder.path()));
  CHECK(read_layer_map(folder.path(), shape, 2).draft_layer == std::vector<std::int32_t>{0, 0, 1});
  for (const char* wrong : {"[0, 1]", "[0, 0, 2]", "[1, 0, 1]", "[0, -1, 1]", "[0, 0.5, 1]", "7"}) {
    CAPTURE(wrong);
    write(head + wrong + "}");
    CHECK(error_of([&] { read_layer_map(folder.path(), shape, 2); }).code() == ExitCode::kBadInput);
  }
  write(R"({"format": "versieve layer map", "schema": 1})");
  CHECK(error_of([&] { read_layer_map(folder.path(), shape, 2); }).code() == ExitCode::kBadInput);
  write(R"({"format": "versieve schedule", "schema": 1, "map": [0, 0, 1]})");
  CHECK(error_of([&] { read_layer_map(folder.path(), shape, 2); }).code() == ExitCode::kBadInput);
}

}  // namespace versieve::engine
