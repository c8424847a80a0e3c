// What ReSA costs in quality, on the trained dense target: bits a byte of held-out texts by how far
// decoding has come, for periods of rectification. Minutes long, so not part of a plain run:
// test_engine "[quality]".
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "engine/io/checkpoint.h"
#include "engine/io/tokenizer/tokenizer.h"
#include "engine/run/model/load.h"
#include "engine/run/speculate/decode_loss.h"
#include "tests/support/paths.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

constexpr std::int64_t kPrefix = 4000;
constexpr std::int64_t kDecoded = 1024;
const std::int64_t kRanges[] = {0, 128, 256, 512, 1024};

double mean_bits(const std::vector<double>& losses, std::int64_t first, std::int64_t last) {
  const double nats = std::accumulate(losses.begin() + first, losses.begin() + last, 0.0);
  return nats / static_cast<double>(last - first) / std::log(2.0);
}

std::vector<double> averaged(const std::vector<std::vector<double>>& texts) {
  std::vector<double> mean(texts.front().size(), 0.0);
  for (const std::vector<double>& losses : texts) {
    for (std::size_t i = 0; i < mean.size(); ++i) {
      mean[i] += losses[i] / static_cast<double>(texts.size());
    }
  }
  return mean;
}

}  // namespace

TEST_CASE("rectification bounds ReSA's loss over the decoded length", "[.][quality]") {
  const std::filesystem::path demo = std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo";
  if (!std::filesystem::exists(demo / "dense")) {
    std::printf("skipped: there is no trained dense target\n");
    return;
  }
  const std::unique_ptr<kernels::Ops<float>> ops = kernels::make_cpu_ops<float>(1);
  const Checkpoint checkpoint = load_target(demo / "dense");
  const std::unique_ptr<const Tokenizer> tokenizer =
      load_tokenizer(demo / "dense", checkpoint.shape);
  Target<float> target = make_target<float>(*ops, checkpoint, nullptr);
  std::vector<std::vector<std::int32_t>> texts;
  for (const char* name : {"code-8000-7", "prose-8000-7", "plan-8000-7"}) {
    std::vector<std::int32_t> tokens =
        tokenizer->encode(read_prompt(demo / "prompts/test" / (std::string(name) + ".txt")));
    tokens.resize(static_cast<std::size_t>(kPrefix + kDecoded + 1));
    texts.push_back(tokens);
  }
  const auto run = [&](const DecodeLossOptions& options) {
    std::vector<std::vector<double>> losses;
    for (const std::vector<std::int32_t>& text : texts) {
      losses.push_back(
          decode_losses(*ops, target, std::span<const std::int32_t>(text), kPrefix, options));
    }
    return averaged(losses);
  };
  const std::vector<double> dense = run({});
  const auto print = [&](const char* name, double ratio, std::int64_t every,
                         const std::vector<double>& losses) {
    std::printf("%-6s p %.2f f %4lld", name, ratio, static_cast<long long>(every));
    for (int i = 0; i < 4; ++i) {
      std::printf(" %8.4f", mean_bits(losses, kRanges[i], kRanges[i + 1]));
    }
    std::printf(" %8.4f\n", mean_bits(losses, 0, kDecoded));
    std::fflush(stdout);
  };
  std::printf("bits a byte, decoded tokens 0-128, -256, -512, -1024, all\n");
  print("dense", 1.0, 0, dense);
  for (const double ratio : {0.05, 0.02}) {
    double worst = 0.0;
    for (const std::int64_t every : {0, 128, 64, 32, 16}) {
      const kernels::ResaSelection selection{.key_block = 16, .active_ratio = ratio, .n_min = 4};
      const std::vector<double> losses = run({.resa = selection, .rectify_every = every});
      print("resa", ratio, every, losses);
      const double excess = mean_bits(losses, 512, kDecoded) - mean_bits(dense, 512, kDecoded);
      worst = every == 0 ? excess : worst;
      if (every == 16) {
        CHECK(excess < worst);
      }
    }
  }
}
