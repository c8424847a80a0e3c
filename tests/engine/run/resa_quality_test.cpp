// What ReSA costs in quality on a trained dense target: bits a token of held-out texts by how far
// decoding has come, for periods of rectification. Minutes to hours long, so not part of a plain
// run: VERSIEVE_DENSE_MODEL=FOLDER test_engine "[quality]".
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <thread>

#include "engine/io/checkpoint.h"
#include "engine/io/tokenizer/tokenizer.h"
#include "engine/run/model/load.h"
#include "engine/run/speculate/decode_loss.h"
#include "tests/support/paths.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

constexpr std::int64_t kLongestPrefix = 4000;
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
  const char* const model = std::getenv("VERSIEVE_DENSE_MODEL");
  if (model == nullptr) {
    std::printf("skipped: VERSIEVE_DENSE_MODEL names no trained dense target\n");
    return;
  }
  const std::unique_ptr<kernels::Ops<float>> ops =
      kernels::make_cpu_ops<float>(static_cast<int>(std::thread::hardware_concurrency()));
  const Checkpoint checkpoint = load_target(model);
  const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(model, checkpoint.shape);
  Target<float> target = make_target<float>(*ops, checkpoint, nullptr);
  std::vector<std::vector<std::int32_t>> texts;
  std::int64_t prefix = kLongestPrefix;
  for (const char* name : {"code-16000-9", "prose-16000-9", "plan-16000-9"}) {
    const std::filesystem::path file =
        std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo/prompts/test" / name;
    texts.push_back(tokenizer->encode(read_prompt(file.string() + ".txt")));
    prefix = std::min(prefix, static_cast<std::int64_t>(texts.back().size()) - kDecoded - 1);
  }
  REQUIRE(prefix > 0);
  for (std::vector<std::int32_t>& text : texts) {
    text.resize(static_cast<std::size_t>(prefix + kDecoded + 1));
  }
  const auto run = [&](const DecodeLossOptions& options) {
    std::vector<std::vector<double>> losses;
    for (const std::vector<std::int32_t>& text : texts) {
      losses.push_back(
          decode_losses(*ops, target, std::span<const std::int32_t>(text), prefix, options));
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
  std::printf("bits a token after %lld, decoded tokens 0-128, -256, -512, -1024, all\n",
              static_cast<long long>(prefix));
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
