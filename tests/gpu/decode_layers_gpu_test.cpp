// One launch for all layers of a token: are its bits those of the launches that it replaces, led by
// the host and in recordings, for every shape that it takes?
#include <catch2/catch.hpp>

#include "tests/gpu/gpu_ops.h"
#include "tests/support/decode_pair.h"

namespace versieve::test {
namespace {

constexpr std::int64_t kRoom = 32;  // tokens after the longest context

DecodeShape shape_of(LlmShape llm) {
  llm.tied_embeddings = false;
  return {.llm = llm, .capture_layers = {0, llm.layers / 2, llm.layers}};
}

// The first layers of a named geometry, with a vocabulary that says nothing about speed.
DecodeShape cut(const char* name, std::int64_t layers, CompressStage stage) {
  LlmShape llm = named_llm_shape(name);
  llm.layers = layers;
  llm.vocab = 256;
  llm.compress_stage = stage;
  return shape_of(llm);
}

DecodeShape small(std::int64_t group_heads, std::int64_t kv_heads, std::int64_t head_dim,
                  CompressStage stage) {
  return shape_of({.name = "small",
                   .layers = 2,
                   .hidden = 512,
                   .intermediate = 768,
                   .vocab = 192,
                   .num_heads = group_heads * kv_heads,
                   .num_kv_heads = kv_heads,
                   .head_dim = head_dim,
                   .max_position = 1 << 18,
                   .compress_stage = stage});
}

// Around every length at which something begins: compressed tokens, blocks, the window, spans.
constexpr std::int64_t kContexts[] = {16400, 16384, 4096, 500, 100, 64, 63, 47, 32, 31, 5, 1, 0};

void check_contexts(DecodePair<Bf16>& pair, const std::vector<std::string>& schedules,
                    std::int64_t longest) {
  for (const std::string& schedule : schedules) {
    if (longest > kContexts[0]) {
      CHECK(pair.led(longest, schedule, 3) == 3);
    }
    for (const std::int64_t context : kContexts) {
      if (context <= longest) {
        CHECK(pair.led(context, schedule, 3) == 3);
      }
    }
    if (longest > 1023) {
      CHECK(pair.led(1023, schedule, 18) == 18);
      CHECK(pair.recorded(1023, schedule, 18) >= 2);
    }
    CHECK(pair.recorded(longest, schedule, 6) >= 2);
    CHECK(pair.recorded(60, schedule, 8) >= 2);
    CHECK(pair.recorded(1, schedule, 4) >= 2);
  }
}

}  // namespace

TEST_CASE("one launch for a token's layers, two steps", "[decode][race]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  DecodePair<Bf16> pair(*ops, small(2, 2, 64, CompressStage::kBeforeRope), 128);
  CHECK(pair.led(79, "FR", 2) == 2);  // the first completes a compressed token
}

TEST_CASE("one launch for a token's layers has the launches' bits: groups of 2, 3, 4 and 8 heads",
          "[decode]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  for (const std::int64_t head_dim : {64, 128}) {
    for (const std::int64_t group : {2, 3, 4, 8}) {
      const CompressStage stage =
          group == 4 ? CompressStage::kAfterRope : CompressStage::kBeforeRope;
      INFO("head size " << head_dim << ", " << group << " query heads a KV head");
      const std::int64_t kv_heads = group == 3 ? 4 : 16 / group;
      DecodePair<Bf16> pair(*ops, small(group, kv_heads, head_dim, stage), 700 + kRoom);
      check_contexts(pair, {"FF", "FR"}, 700);
    }
  }
}

TEST_CASE("one launch for a token's layers has the launches' bits in SmolLM2's geometry",
          "[decode]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  DecodeShape shape = small(3, 3, 64, CompressStage::kBeforeRope);
  shape.llm.hidden = 576;
  shape.llm.intermediate = 1536;
  shape.llm.rope_theta = 1e5;
  DecodePair<Bf16> pair(*ops, shape, 4100 + kRoom);
  check_contexts(pair, {"FF", "FR"}, 4100);
}

TEST_CASE("one launch for a token's layers has the launches' bits without a window", "[decode]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  DecodeShape shape = small(4, 2, 64, CompressStage::kBeforeRope);
  shape.llm.nsa.window = 0;
  DecodePair<Bf16> pair(*ops, shape, 700 + kRoom);
  check_contexts(pair, {"FF", "FR"}, 700);
}

TEST_CASE("one launch for a token's layers: mean pooling, and one stream captured twice",
          "[decode]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  for (const CompressStage stage : {CompressStage::kBeforeRope, CompressStage::kAfterRope}) {
    DecodeShape shape = small(4, 2, 64, stage);
    shape.learned_positions = false;
    shape.capture_layers = {1, 2, 1};
    DecodePair<Bf16> pair(*ops, shape, 200);
    CHECK(pair.led(111, "FF", 4) == 4);
    CHECK(pair.recorded(111, "FR", 20) >= 2);
  }
}

TEST_CASE("one launch for a token's layers: other sparse geometries, where it takes them",
          "[decode]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  const NsaGeometry geometries[] = {
      {.cmp_block = 16, .cmp_stride = 8, .sel_block = 32, .sel_count = 6, .window = 100},
      {.sel_count = 32, .init_blocks = 2, .local_blocks = 3, .window = 1024},
      {.sel_count = 3, .window = 1},
      {.cmp_block = 32, .cmp_stride = 32, .sel_block = 64, .sel_count = 8, .window = 64}};
  for (const NsaGeometry& nsa : geometries) {
    DecodeShape shape = small(4, 2, 64, CompressStage::kBeforeRope);
    shape.llm.nsa = nsa;
    DecodePair<Bf16> pair(*ops, shape, 3000 + kRoom);
    int launches = 0;
    for (const std::int64_t context : {3000, 1500, 200, 40}) {
      launches += pair.led(context, "FR", 3);
    }
    pair.recorded(290, "FF", 40, 5);
    std::printf("l %lld, s %lld, B %lld, n %lld, W %lld: %s\n",
                static_cast<long long>(nsa.cmp_block), static_cast<long long>(nsa.cmp_stride),
                static_cast<long long>(nsa.sel_block), static_cast<long long>(nsa.sel_count),
                static_cast<long long>(nsa.window), launches > 0 ? "one launch" : "launches");
  }
}

// Up to 32 candidates are ranked in one way, more in a second, more than fit in a third, and more
// than 32 chosen blocks are listed in a way of their own.
TEST_CASE("one launch for a token's layers: many chosen blocks, and blocks equally important",
          "[decode]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  for (const std::int64_t chosen : {16, 32, 48, 64}) {
    for (const double compressed_keys : {1.0, 0.0}) {
      INFO(chosen << " blocks, compressed keys times " << compressed_keys);
      DecodeShape shape = small(4, 2, 64, CompressStage::kBeforeRope);
      shape.llm.nsa.sel_count = chosen;
      DecodePair<Bf16> pair(*ops, shape, 24000 + kRoom, compressed_keys);
      for (const std::int64_t context : {24000, 16384, 9000, 3000, 2000, 900}) {
        CHECK(pair.led(context, "FR", 2) == 2);
      }
    }
  }
}

TEST_CASE("recordings of one launch keep what they were made with", "[decode]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  DecodePair<Bf16> pair(*ops, small(4, 2, 64, CompressStage::kBeforeRope), 2000);
  pair.check_turns(300, "FF", "FR");
  // Past the bound of the first recording.
  CHECK(pair.recorded(1250, "FR", 320, 16) >= 4);
}

TEST_CASE("one launch for a token's layers: the demo geometry", "[decode][large]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  for (const CompressStage stage : {CompressStage::kBeforeRope, CompressStage::kAfterRope}) {
    DecodePair<Bf16> pair(*ops, cut("demo", 2, stage), 16400 + kRoom);
    check_contexts(pair, {"FF", "FR"}, 16400);
  }
  DecodePair<Bf16> pair(*ops, cut("demo", 8, CompressStage::kBeforeRope), 16400 + kRoom);
  check_contexts(pair, {"", "FRRRFRRR"}, 16400);
}

TEST_CASE("one launch for a token's layers: the 1B geometry", "[decode][large]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  for (const CompressStage stage : {CompressStage::kBeforeRope, CompressStage::kAfterRope}) {
    DecodePair<Bf16> pair(*ops, cut("nsa-1b", 3, stage), 65536 + kRoom);
    check_contexts(pair, {"FFF", "FRR", "FFR"}, 65536);
  }
}

TEST_CASE("one launch for a token's layers: the 8B geometry", "[decode][large]") {
  const std::unique_ptr<kernels::Ops<Bf16>> ops = try_gpu_ops<Bf16>();
  if (ops == nullptr) {
    return;
  }
  for (const CompressStage stage : {CompressStage::kBeforeRope, CompressStage::kAfterRope}) {
    DecodePair<Bf16> pair(*ops, cut("nsa-8b", 2, stage), 65536 + kRoom);
    check_contexts(pair, {"FF", "FR"}, 65536);
  }
}

}  // namespace versieve::test
