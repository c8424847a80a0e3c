// Shapes of nsa_verify that tests try.
#include "tests/support/nsa_case.h"

#include <cstdlib>

#include "tests/support/rounding.h"

namespace versieve::testing {

NsaCaseShape random_nsa_shape(std::mt19937_64& rng, bool cuda) {
  static const NsaGeometry geometries[] = {
      {32, 16, 64, 16, 1, 2, 512}, {4, 2, 8, 4, 1, 2, 6},     {8, 4, 4, 3, 1, 2, 5},
      {4, 4, 4, 3, 1, 2, 1},       {6, 2, 10, 5, 2, 2, 7},    {1, 1, 1, 4, 0, 1, 3},
      {16, 8, 48, 6, 0, 0, 40},    {32, 16, 64, 4, 1, 2, 64}, {64, 16, 32, 8, 2, 3, 100},
      {5, 5, 15, 2, 0, 2, 33},     {12, 3, 96, 3, 2, 1, 130}, {16, 16, 16, 6, 0, 1, 0},
      {32, 16, 64, 4, 1, 2, 0}};
  static const std::int64_t head_dims[] = {16, 32, 64, 128, 48, 80, 96, 112};
  static const std::int64_t odd_head_dims[] = {1, 7, 20, 33, 64, 72, 100, 128};
  static const std::int64_t groups[] = {1, 2, 3, 4, 5, 8, 16};
  NsaCaseShape s;
  s.nsa = geometries[pick(rng, 0, std::size(geometries) - 1)];
  s.kv_heads = pick(rng, 1, 3);
  s.heads = s.kv_heads * groups[pick(rng, 0, std::size(groups) - 1)];
  s.head_dim = cuda ? head_dims[pick(rng, 0, 7)] : odd_head_dims[pick(rng, 0, 7)];
  s.context_len = pick(rng, 0, 3) == 0 ? pick(rng, 0, 40) : pick(rng, 0, 700);
  s.nodes = pick(rng, 0, 2) == 0 ? pick(rng, 1, 40) : pick(rng, 1, 9);
  s.tree = static_cast<TreeForm>(pick(rng, 0, 2));
  return s;
}

std::vector<NsaCaseShape> adversarial_nsa_shapes() {
  const NsaGeometry usual{32, 16, 64, 6, 1, 2, 96};
  const NsaCaseShape base{usual, 8, 2, 64, 1000, 12, TreeForm::kRandom, 1.0, false, false};
  std::vector<NsaCaseShape> shapes;
  const auto add = [&](auto change) {
    NsaCaseShape shape = base;
    change(shape);
    shapes.push_back(shape);
  };
  add([](NsaCaseShape& s) { s.equal_keys = true; });
  add([](NsaCaseShape& s) { s.zero_keys = true; });
  add([](NsaCaseShape& s) { s.logit_scale = 0.0; });
  add([](NsaCaseShape& s) { s.logit_scale = 1e4; });
  add([](NsaCaseShape& s) { s.logit_scale = -1e4; });
  for (const std::int64_t context : {0, 1, 15, 31, 32, 47, 63, 64, 65, 127, 128, 383, 384}) {
    add([&](NsaCaseShape& s) { s.context_len = context; });
    add([&](NsaCaseShape& s) {
      s.context_len = context;
      s.nodes = 40;
      s.tree = TreeForm::kChain;
    });
  }
  add([](NsaCaseShape& s) { s.nodes = 1; });
  add([](NsaCaseShape& s) { s.nsa = {32, 16, 64, 3, 1, 2, 1}; });
  for (const std::int64_t context : {0, 62, 63, 64, 127, 1000}) {  // no window
    for (const std::int64_t nodes : {1, 12}) {
      add([&](NsaCaseShape& s) {
        s.nsa.window = 0;
        s.context_len = context;
        s.nodes = nodes;
      });
    }
  }
  return shapes;
}

std::uint64_t test_seed() {
  const char* text = std::getenv("VERSIEVE_SEED");
  return text == nullptr ? 20261121 : std::strtoull(text, nullptr, 10);
}

}  // namespace versieve::testing
