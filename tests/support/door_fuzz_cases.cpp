// Cases whose answer is compared bit for bit, and those of attention, whose choices may swap near
// equals.
#include "tests/support/door_fuzz_cases.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu.h"
#include "tests/end_to_end/door_case.h"
#include "tests/support/nsa_case.h"
#include "tests/support/resa_case.h"
#include "tests/support/rounding.h"

namespace versieve::testing {
namespace {

using engine::tensor_of;
using engine::TensorSet;
using Rng = std::mt19937_64;

// True in one of `of` calls.
bool rarely(Rng& rng, std::int64_t of) {
  return pick(rng, 0, of - 1) == 0;
}
std::string some_dtype(Rng& rng) {
  return rarely(rng, 2) ? "bf16" : "f32";
}
template <std::size_t kCount>
std::int64_t one_of(Rng& rng, const std::int64_t (&values)[kCount]) {
  return values[pick(rng, 0, kCount - 1)];
}

engine::TensorView view_of(const engine::Tensor& tensor) {
  return {.type = tensor.type, .shape = tensor.shape, .bytes = tensor.bytes};
}

// A case whose results are bits.
DoorCase bits_case(const std::string& variant, const std::string& dtype, TensorSet input) {
  return {.variant = variant, .dtype = dtype, .input = std::move(input), .compare = &bits_fault};
}

NsaGeometry random_geometry(Rng& rng) {
  NsaGeometry g;
  // Powers of two, which the fused launches ask for, or anything.
  const bool even = !rarely(rng, 4);
  g.cmp_stride = even ? std::int64_t{1} << pick(rng, 0, 4) : pick(rng, 1, 9);
  g.cmp_block = g.cmp_stride * pick(rng, 1, 4);
  const std::int64_t least = even ? std::max<std::int64_t>(1, 16 / g.cmp_stride) : 1;
  g.sel_block = g.cmp_stride * (even ? least << pick(rng, 0, 2) : pick(rng, 1, 8));
  g.init_blocks = pick(rng, 0, 2);
  g.local_blocks = pick(rng, 0, 3);
  g.sel_count = std::max<std::int64_t>(1, g.init_blocks + g.local_blocks + pick(rng, 0, 4));
  g.window = rarely(rng, 3) ? pick(rng, 1, 600) : pick(rng, 1, 40);
  return g;
}

NsaCaseShape random_shape(Rng& rng) {
  NsaCaseShape s;
  s.nsa = random_geometry(rng);
  s.kv_heads = pick(rng, 1, 2);
  s.heads = s.kv_heads * (rarely(rng, 4) ? pick(rng, 1, 16) : pick(rng, 1, 4));
  s.head_dim = rarely(rng, 2) ? 16 * pick(rng, 1, 8) : 16 * pick(rng, 1, 4);
  s.context_len = rarely(rng, 12) ? pick(rng, 0, 900) : pick(rng, 0, 90);
  s.nodes = rarely(rng, 12) ? pick(rng, 1, 70) : pick(rng, 1, 8);
  s.tree = static_cast<TreeForm>(pick(rng, 0, 2));
  s.equal_keys = rarely(rng, 16);
  s.zero_keys = rarely(rng, 16);
  s.group_size = pick(rng, 1, 9);
  return s;
}

// Ascending, -1 padded; some name blocks that do not exist.
std::vector<std::int32_t> random_indices(Rng& rng, const NsaCase& c) {
  const std::int64_t n = c.shape.nsa.sel_count;
  std::vector<std::int32_t> indices;
  for (std::int64_t row = 0; row < c.shape.nodes * c.shape.kv_heads; ++row) {
    std::vector<std::int32_t> chosen;
    for (std::int64_t i = pick(rng, 0, n); i > 0; --i) {
      const std::int64_t most = rarely(rng, 30) ? INT32_MAX : c.num_blocks();
      chosen.push_back(static_cast<std::int32_t>(pick(rng, 0, most)));
    }
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    chosen.resize(at(n), -1);
    indices.insert(indices.end(), chosen.begin(), chosen.end());
  }
  return indices;
}

// The CPU's answer in double; rows of importance as what chose the row's blocks.
NsaResult double_answer(const NsaCase& given) {
  NsaCase c = given;
  std::replace_if(
      c.indices_in.begin(), c.indices_in.end(), [&](std::int32_t i) { return i >= c.num_blocks(); },
      -1);
  NsaBuffers<double> buffers(c);
  kernels::nsa_verify_cpu(buffers.params(), 1);
  NsaResult result = buffers.result();
  const std::int64_t width = c.shape.kv_heads * c.num_blocks();
  for (std::int32_t node = 0; c.indices_in.empty() && node < c.shape.nodes; ++node) {
    const std::int64_t router = routing_row(c, node);
    std::copy_n(result.importance.begin() + router * width, width,
                result.importance.begin() + node * width);
  }
  return result;
}

template <class T>
std::string nsa_fault(const NsaCase& c, const TensorSet& got) {
  NsaResult result{.out = floats_of(got, "out"), .indices = integers_of(got, "indices")};
  if (c.indices_in.empty()) {
    result.importance = floats_of(got, "importance");
  }
  return disagreement(rounded<T>(c), result, tolerance_of<T>(), &double_answer);
}

float odd_score(Rng& rng) {
  switch (pick(rng, 0, 15)) {
    case 0:
      return std::numeric_limits<float>::quiet_NaN();
    case 1:
      return -std::numeric_limits<float>::infinity();
    case 2:
      return std::numeric_limits<float>::infinity();
    case 3:
      return -0.0F;
    case 4:
      return std::numeric_limits<float>::denorm_min() * static_cast<float>(pick(rng, -9, 9));
    case 5:
      return static_cast<float>(std::normal_distribution<double>()(rng));
    default:
      return static_cast<float>(pick(rng, -32, 32)) * 0.25F;
  }
}

template <class T>
std::string resa_fault(const ResaCase& c, const TensorSet& got) {
  constexpr double kNorm = std::is_same_v<T, float> ? 1e-5 : 1e-2;
  return resa_disagreement(rounded_case<T>(c), {floats_of(got, "out"), integers_of(got, "indices")},
                           kNorm, 1e-5);
}

}  // namespace

std::vector<double> floats_of(const TensorSet& set, const std::string& name) {
  return engine::values_as<double>(view_of(set.tensors.at(name)), name);
}
std::vector<std::int32_t> integers_of(const TensorSet& set, const std::string& name) {
  return engine::values_as<std::int32_t>(view_of(set.tensors.at(name)), name);
}

std::string bits_fault(const DoorCase& c, const TensorSet& got) {
  const DoorAnswer cpu = answer_of(c, "cpu", c.dtype);
  if (cpu.code != ExitCode::kDone) {
    return "the CPU refuses: " + cpu.sentence;
  }
  for (const auto& [name, tensor] : cpu.results.tensors) {
    const auto found = got.tensors.find(name);
    if (found == got.tensors.end() || found->second.shape != tensor.shape) {
      return name + " is missing or has another shape";
    }
    if (found->second.bytes != tensor.bytes) {
      return name + " has other bits";
    }
  }
  return {};
}

DoorCase random_nsa_door(Rng& rng) {
  static const char* const kVariants[] = {"vanilla", "refresh", "reuse", "exact", "approx"};
  DoorCase d;
  d.variant = kVariants[pick(rng, 0, 4)];
  d.dtype = some_dtype(rng);
  NsaCaseShape shape = random_shape(rng);
  if (rarely(rng, 20)) {  // what CUDA refuses
    d.cuda_takes = false;
    shape.head_dim = 16 * pick(rng, 0, 8) + pick(rng, 1, 15);
  }
  shape.group_mode = d.variant == "approx" ? GroupMode::kApprox : GroupMode::kExact;
  NsaCase c = make_nsa_case(shape, rng);
  d.input = test::nsa_tensors(c);
  if (d.variant == "reuse") {
    c.indices_in = random_indices(rng, c);
    d.input.tensors["indices_in"] =
        tensor_of(c.indices_in, {shape.nodes, shape.kv_heads, shape.nsa.sel_count});
  }
  d.compare = [c = std::move(c), bf16 = d.dtype == "bf16"](const DoorCase&, const TensorSet& got) {
    return bf16 ? nsa_fault<Bf16>(c, got) : nsa_fault<float>(c, got);
  };
  return d;
}

DoorCase random_topk_door(Rng& rng) {
  static const char* const kVariants[] = {"sort", "radix", "gvr"};
  const std::int64_t rows = rarely(rng, 16) ? pick(rng, 1, 300) : pick(rng, 1, 4);
  const std::int64_t length = rows > 4 || !rarely(rng, 8)
                                  ? pick(rng, 1, 300)
                                  : (rarely(rng, 4) ? pick(rng, 1, 40000) : pick(rng, 1, 6000));
  const std::int64_t k = rarely(rng, 4) ? pick(rng, 1, length + 5) : pick(rng, 1, 20);
  const bool ties = rarely(rng, 2);
  std::normal_distribution<float> normal;
  std::vector<float> scores(at(rows * length));
  std::generate(scores.begin(), scores.end(), [&] { return ties ? odd_score(rng) : normal(rng); });
  TensorSet set;
  set.tensors["scores"] = tensor_of(scores, {rows, length});
  set.metadata["k"] = std::to_string(k);
  if (rarely(rng, 2)) {
    std::vector<std::int32_t> hint(at(rows * k));
    std::generate(hint.begin(), hint.end(),
                  [&] { return static_cast<std::int32_t>(pick(rng, -1, length + 2)); });
    set.tensors["hint"] = tensor_of(hint, {rows, k});
  }
  return bits_case(kVariants[pick(rng, 0, 2)], some_dtype(rng), std::move(set));
}

DoorCase random_layer_map(Rng& rng) {
  const std::int64_t most = rarely(rng, 10) ? 80 : 12;
  const std::int64_t m = pick(rng, 1, most);
  const std::int64_t n = pick(rng, 1, most);
  const std::int64_t forbids = pick(rng, 2, 30);  // few of them leave a map
  std::vector<double> similarity(at(m * n));
  std::generate(similarity.begin(), similarity.end(), [&] {
    return rarely(rng, forbids) ? -std::numeric_limits<double>::infinity()
                                : -0.5 * static_cast<double>(pick(rng, 0, 4));
  });
  TensorSet set;
  set.tensors["similarity"] = tensor_of(similarity, {m, n});
  return bits_case("default", some_dtype(rng), std::move(set));
}

// Multiples of 2^-10: sums are exact in any order.
DoorCase random_top_p_door(Rng& rng) {
  const std::int64_t rows = pick(rng, 0, 5);
  const std::int64_t length = rarely(rng, 12) ? pick(rng, 0, 20000) : pick(rng, 0, 600);
  const std::int64_t levels = pick(rng, 0, 63);
  std::vector<float> weights(at(rows * length));
  std::generate(weights.begin(), weights.end(),
                [&] { return static_cast<float>(pick(rng, 0, levels)) * 0x1p-10F; });
  TensorSet set;
  set.tensors["weights"] = tensor_of(weights, {rows, length});
  const std::int64_t percent = pick(rng, 1, 100);
  set.metadata["p"] =
      percent == 100 ? "1" : "0." + std::string(percent < 10 ? "0" : "") + std::to_string(percent);
  set.metadata["iterations"] = std::to_string(rarely(rng, 8) ? 4096 : pick(rng, 0, 40));
  return bits_case("default", some_dtype(rng), std::move(set));
}

DoorCase random_block_keys(Rng& rng) {
  const std::int64_t length = rarely(rng, 10) ? pick(rng, 0, 700) : pick(rng, 0, 60);
  const std::int64_t kv_heads = pick(rng, rarely(rng, 20) ? 0 : 1, 4);
  const std::int64_t head_dim = rarely(rng, 3) ? 8 * pick(rng, 1, 8) : pick(rng, 0, 40);
  std::vector<float> k(at(length * kv_heads * head_dim));
  std::generate(k.begin(), k.end(), [&] {
    const float x = odd_score(rng);
    return std::isnan(x) ? 0.0F : x;
  });
  TensorSet set;
  set.tensors["k"] = tensor_of(k, {length, kv_heads, head_dim});
  set.metadata["key_block"] = std::to_string(rarely(rng, 16) ? INT32_MAX : pick(rng, 1, 40));
  return bits_case("default", some_dtype(rng), std::move(set));
}

DoorCase random_resa_door(Rng& rng) {
  DoorCase d{.variant = "default", .dtype = some_dtype(rng)};
  ResaCase c;
  c.kv_heads = rarely(rng, 30) ? pick(rng, 1, 40) : pick(rng, 1, 3);
  c.heads = c.kv_heads * (rarely(rng, 4) ? pick(rng, 1, 16) : pick(rng, 1, 4));
  c.head_dim = rarely(rng, 2) ? (rarely(rng, 3) ? 128 : 64) : 16 * pick(rng, 1, 8);
  if (rarely(rng, 20)) {  // what CUDA refuses
    d.cuda_takes = false;
    c.head_dim = 16 * pick(rng, 0, 8) + pick(rng, 1, 15);
  }
  c.length = rarely(rng, 12) ? pick(rng, 1, 1200) : pick(rng, 1, 150);
  c.selection.key_block = rarely(rng, 30)  ? INT32_MAX
                          : rarely(rng, 2) ? std::int64_t{1} << pick(rng, 0, 6)
                                           : pick(rng, 1, 70);
  const std::int64_t percent = pick(rng, 1, 100);
  const bool nothing = rarely(rng, 12);  // a ratio so low that no block is attended
  const std::string ratio =
      nothing ? "1e-12"
              : (percent == 100
                     ? "1"
                     : "0." + std::string(percent < 10 ? "0" : "") + std::to_string(percent));
  c.selection.active_ratio = std::stod(ratio);
  c.selection.n_min = nothing ? 0 : pick(rng, 0, 6);
  c.selection.n_local = nothing ? 0 : pick(rng, 0, 3);
  const bool takes = d.cuda_takes;
  d = resa_door(make_resa_case(c, rng), ratio, rarely(rng, 8) ? INT32_MAX : pick(rng, 1, 20),
                d.dtype);
  d.cuda_takes = takes;
  return d;
}

DoorCase resa_door(ResaCase c, const std::string& ratio, std::int64_t splits,
                   const std::string& dtype) {
  DoorCase d{.family = "resa_decode", .variant = "default", .dtype = dtype};
  d.input.tensors["q"] = tensor_of(c.q, {c.heads, c.head_dim});
  d.input.tensors["k"] = tensor_of(c.k, {c.length, c.kv_heads, c.head_dim});
  d.input.tensors["v"] = tensor_of(c.v, {c.length, c.kv_heads, c.head_dim});
  d.input.metadata = {{"key_block", std::to_string(c.selection.key_block)},
                      {"active_ratio", ratio},
                      {"n_min", std::to_string(c.selection.n_min)},
                      {"n_local", std::to_string(c.selection.n_local)},
                      {"splits", std::to_string(splits)}};
  d.compare = [c = std::move(c), bf16 = dtype == "bf16"](const DoorCase&, const TensorSet& got) {
    return bf16 ? resa_fault<Bf16>(c, got) : resa_fault<float>(c, got);
  };
  return d;
}

}  // namespace versieve::testing
